#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "accept/acceptance_rule.h"
#include "accept/rejection_math.h"
#include "sampling/chi_square_for_test.h"
#include "sampling/keyed_draw.h"

namespace tahmin {
namespace {

using Table = std::vector<double>;

TokenDistribution FromTable(const Table& table) {
  TokenDistribution distribution;
  for (size_t i = 0; i < table.size(); ++i) {
    if (table[i] > 0) distribution.entries.push_back({static_cast<int32_t>(i), table[i]});
  }
  return distribution;
}

// q without a token, renormalised: what the next sibling is drawn from.
TokenDistribution Without(const TokenDistribution& q, int32_t token) {
  TokenDistribution rest;
  const double left = 1 - q.ProbabilityOf(token);
  for (const TokenProbability& entry : q.entries) {
    if (entry.token != token) rest.entries.push_back({entry.token, entry.probability / left});
  }
  return rest;
}

enum class Draw { kWithoutReplacement, kIndependent, kTopK };

// How a rule treats p after a rejected child. The right one is ResidualDistribution.
using AfterRejection =
    std::function<TokenDistribution(const TokenDistribution&, const TokenDistribution&, int32_t)>;

// Adds the law of the first emitted token of one place with `num_children` children, enumerating
// every outcome of the draws and of the tests.
void AddPlace(const TokenDistribution& p, const TokenDistribution& q, int32_t num_children,
              Draw draw, const AfterRejection& after, double weight, Table* law) {
  if (weight == 0) return;
  if (num_children == 0 || q.entries.empty()) {
    for (const TokenProbability& entry : p.entries)
      (*law)[entry.token] += weight * entry.probability;
    return;
  }
  const auto outcome = [&](int32_t token, double drawn, const TokenDistribution& recorded) {
    const double accepted = AcceptanceProbability(p, recorded, token);
    (*law)[token] += weight * drawn * accepted;
    if (accepted == 1) return;
    const TokenDistribution next = draw == Draw::kIndependent ? q : Without(q, token);
    AddPlace(after(p, recorded, token), next, num_children - 1, draw, after,
             weight * drawn * (1 - accepted), law);
  };
  if (draw == Draw::kTopK) {
    TokenProbability best = q.entries[0];
    for (const TokenProbability& entry : q.entries) {
      if (entry.probability > best.probability) best = entry;
    }
    return outcome(best.token, 1.0, {});
  }
  for (const TokenProbability& entry : q.entries) outcome(entry.token, entry.probability, q);
}

const std::vector<std::pair<Table, Table>> kTables = {
    {{0.9, 0.05, 0.03, 0.015, 0.005}, {0.6, 0.2, 0.1, 0.06, 0.04}},
    {{0.2, 0.2, 0.2, 0.2, 0.2}, {0.3, 0.1, 0.25, 0.15, 0.2}},
    {{0.6, 0.4, 0, 0, 0}, {0, 0, 0.5, 0.3, 0.2}},
    {{0, 0.5, 0.5, 0, 0}, {0.4, 0.6, 0, 0, 0}},
    {{0.2, 0.2, 0.2, 0.2, 0.2}, {1, 0, 0, 0, 0}},
};

double WorstError(Draw draw, const AfterRejection& after) {
  double worst = 0;
  for (const auto& [p, q] : kTables) {
    for (int32_t num_children = 1; num_children <= 4; ++num_children) {
      Table law(p.size());
      AddPlace(FromTable(p), FromTable(q), num_children, draw, after, 1, &law);
      for (size_t i = 0; i < p.size(); ++i) worst = std::max(worst, std::abs(law[i] - p[i]));
    }
  }
  return worst;
}

TEST(RejectionTree, EveryWayOfDrawingSiblingsIsLossless) {
  for (Draw draw : {Draw::kWithoutReplacement, Draw::kIndependent, Draw::kTopK}) {
    EXPECT_LT(WorstError(draw, ResidualDistribution), 1e-12) << static_cast<int>(draw);
  }
}

TEST(RejectionTree, TheSameEnumerationSeesPlantedWrongRules) {
  // p as it was, whatever was rejected.
  const AfterRejection keeps_p = [](const auto& p, const auto&, int32_t) { return p; };
  // The rejected token is taken out, its q is not subtracted: right for picks, wrong for samples.
  const AfterRejection takes_token_out = [](const TokenDistribution& p, const TokenDistribution&,
                                            int32_t token) { return Without(p, token); };
  EXPECT_GT(WorstError(Draw::kWithoutReplacement, keeps_p), 1e-3);
  EXPECT_GT(WorstError(Draw::kTopK, keeps_p), 1e-3);
  EXPECT_GT(WorstError(Draw::kWithoutReplacement, takes_token_out), 1e-3);
}

SamplingOptions Unfiltered() {
  SamplingOptions options;
  options.temperature = 1;
  options.top_k = 0;
  options.top_p = 1;
  options.min_p = 0;
  return options;
}

std::vector<float> LogitsOf(const Table& p) {
  std::vector<float> logits;
  for (double probability : p) logits.push_back(static_cast<float>(std::log(probability)));
  return logits;
}

// Two children of the root without replacement, two below each of them.
DraftTree DrawTree(const TokenDistribution& q, uint64_t seed) {
  DraftTree tree;
  const auto add_children = [&](int32_t parent) {
    TokenDistribution left = q;
    for (int32_t i = 0; i < 2; ++i) {
      const auto index = static_cast<uint32_t>(tree.size());
      const double u = StepUniform(seed, DrawPurpose::kDraft, 0, index, parent + 2);
      const int32_t token = DrawFrom(left, u);
      tree.nodes.push_back({.token = token, .parent = parent, .q = left});
      left = Without(left, token);
    }
  };
  add_children(kRoot);
  add_children(0);
  add_children(1);
  return tree;
}

TEST(RejectionTree, EmittedPairsFollowP) {
  const Table p = {0.5, 0.2, 0.15, 0.1, 0.05};
  const TokenDistribution q = FromTable({0.25, 0.3, 0.2, 0.15, 0.1});
  const auto rule = MakeAcceptanceRule(AcceptanceRuleKind::kRejection, Unfiltered());
  std::vector<float> rows;
  for (int32_t i = 0; i < 7; ++i) {
    for (float logit : LogitsOf(p)) rows.push_back(logit);
  }
  std::vector<int64_t> counts(25);
  for (uint64_t seed = 1; seed <= 100000; ++seed) {
    std::vector<int32_t> tokens = {0};
    DraftTree draft = DrawTree(q, seed);
    for (int64_t step = 0; tokens.size() < 3; ++step) {
      const auto path =
          rule->Accept(draft, {rows, 5},
                       {.tokens = tokens, .seed = seed, .step_index = step, .valid_vocab_size = 5});
      ASSERT_TRUE(path.ok()) << path.status();
      tokens.insert(tokens.end(), path->tokens.begin(), path->tokens.end());
      draft.nodes.clear();
    }
    ++counts[static_cast<size_t>(tokens[1] * 5 + tokens[2])];
  }
  Table joint;
  for (double a : p) {
    for (double b : p) joint.push_back(a * b);
  }
  EXPECT_GT(ChiSquarePValue(counts, joint), 1e-4);
}

TEST(RejectionTree, TemperatureZeroDescendsToTheBestChild) {
  SamplingOptions greedy = Unfiltered();
  greedy.temperature = 0;
  // root: best 3; node 0 (token 1), node 1 (token 3): best 2; node 2 (token 2 under node 1):
  // best 4.
  const std::vector<float> rows = {0, 0, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1};
  DraftTree draft;
  draft.nodes = {
      {.token = 1, .parent = kRoot}, {.token = 3, .parent = kRoot}, {.token = 2, .parent = 1}};
  const std::vector<int32_t> tokens = {0};
  const auto path = MakeRejectionTree(greedy)->Accept(
      draft, {rows, 5}, {.tokens = tokens, .seed = 1, .step_index = 0, .valid_vocab_size = 5});
  ASSERT_TRUE(path.ok());
  EXPECT_THAT(path->tokens, ::testing::ElementsAre(3, 2, 4));
  EXPECT_THAT(path->nodes, ::testing::ElementsAre(1, 2));
  EXPECT_EQ(path->num_tested, 2);
}

TEST(RejectionTree, RefusesAQThatCannotBe) {
  DraftTree draft;
  draft.nodes = {{.token = 1, .parent = kRoot}, {.token = 2, .parent = kRoot}};
  draft.nodes[1].q.entries = {{1, 1.0}};  // cannot have drawn token 2
  const std::vector<float> rows(15, 0.0f);
  const std::vector<int32_t> tokens = {0};
  const auto status =
      MakeRejectionTree(Unfiltered())
          ->Accept(draft, {rows, 5}, {.tokens = tokens, .seed = 1, .valid_vocab_size = 5})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tahmin
