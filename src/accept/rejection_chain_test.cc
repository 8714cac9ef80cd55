#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "accept/acceptance_rule.h"
#include "accept/rejection_math.h"
#include "sampling/chi_square_for_test.h"
#include "sampling/keyed_draw.h"

namespace tahmin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int32_t kVocab = 8;
constexpr double kSmallestPValue = 1e-4;  // seeds are fixed: a test passes always or never
using Table = std::vector<double>;

SamplingOptions Options(float temperature = 1) {
  SamplingOptions options;
  options.temperature = temperature;
  options.top_k = 0;
  options.top_p = 1;
  options.min_p = 0;
  return options;
}

std::vector<float> LogitsOf(const Table& p) {
  std::vector<float> logits;
  for (const double probability : p) logits.push_back(static_cast<float>(std::log(probability)));
  return logits;
}

TokenDistribution DistributionOf(const Table& table) {
  std::vector<Candidate> candidates;
  for (int32_t i = 0; i < kVocab; ++i) {
    if (table[i] > 0) candidates.push_back({i, static_cast<float>(std::log(table[i]))});
  }
  return ToDistribution(candidates);
}

struct Scenario {
  const char* name;
  Table p, q;
};
const Scenario kScenarios[] = {
    {"sharp",
     {0.9, 0.05, 0.02, 0.01, 0.01, 0.005, 0.003, 0.002},
     {0.7, 0.1, 0.1, 0.05, 0.02, 0.01, 0.01, 0.01}},
    {"flat",
     {0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125},
     {0.2, 0.1, 0.15, 0.05, 0.125, 0.125, 0.125, 0.125}},
    {"disjoint", {0.4, 0.3, 0.2, 0.1, 0, 0, 0, 0}, {0, 0, 0, 0, 0.1, 0.2, 0.3, 0.4}},
};

enum class DraftKind { kSampled, kArgmax, kArgmaxRecordedAsSoftmax };

// A chain of draft tokens from q, recorded as `kind` says.
DraftTree DrawChain(const TokenDistribution& q, DraftKind kind, int32_t length, uint64_t seed) {
  DraftTree chain;
  for (int32_t i = 0; i < length; ++i) {
    DraftNode node;
    node.parent = i - 1;
    const double u = StepUniform(seed, DrawPurpose::kDraft, 0, static_cast<uint32_t>(i), 1 + i);
    node.token = kind == DraftKind::kSampled ? DrawFrom(q, u) : q.entries[0].token;
    if (kind != DraftKind::kArgmax) node.q = q;
    chain.nodes.push_back(std::move(node));
  }
  return chain;
}

// The pieces that a wrong rule below would need to bend.
class WrongRule : public AcceptanceRule {
 public:
  absl::StatusOr<AcceptedPath> Accept(const DraftTree& draft, const VerifiedTree& verified,
                                      const AcceptContext& context) override {
    CandidateBuilder builder(Options());
    AcceptedPath path;
    for (int32_t i = 0; i <= draft.size(); ++i) {
      const auto candidates = builder.Build(verified.LogitsOf(i - 1), {}, context.valid_vocab_size);
      const TokenDistribution p = ToDistribution(*candidates);
      const auto uniform = [&](DrawPurpose purpose, uint32_t lane) {
        return StepUniform(context.seed, purpose, context.step_index, lane, i + 1);
      };
      const auto lane = static_cast<uint32_t>(i);
      if (i < draft.size() && Accepts(p, draft.nodes[i], uniform(DrawPurpose::kAcceptance, lane))) {
        path.tokens.push_back(draft.nodes[i].token);
        path.nodes.push_back(i);
        continue;
      }
      path.tokens.push_back(DrawFrom(p, uniform(DrawPurpose::kResidual, lane)));
      break;
    }
    return path;
  }
  virtual bool Accepts(const TokenDistribution& p, const DraftNode& node, double u) = 0;
};

class ResamplesFromP final : public WrongRule {
  bool Accepts(const TokenDistribution& p, const DraftNode& node, double u) override {
    return u < AcceptanceProbability(p, node.q, node.token);
  }
};

// The draw that is compared with the draft is not the one that is emitted.
class RedrawsAfterMatch final : public WrongRule {
  bool Accepts(const TokenDistribution& p, const DraftNode& node, double u) override {
    return DrawFrom(p, u) == node.token;
  }
};

// p-value of the first three tokens that steps with this rule emit, against p x p x p. Steps that
// end early are followed by plain ones.
double EmissionPValue(AcceptanceRule& rule, const Scenario& scenario, DraftKind kind,
                      int32_t num_draft, int64_t num_trials) {
  const TokenDistribution q = DistributionOf(scenario.q);
  const std::vector<float> row = LogitsOf(scenario.p);
  std::vector<float> rows;
  for (int32_t i = 0; i <= num_draft; ++i) rows.insert(rows.end(), row.begin(), row.end());
  std::vector<int64_t> counts(kVocab * kVocab * kVocab);
  for (int64_t trial = 0; trial < num_trials; ++trial) {
    const auto seed = static_cast<uint64_t>(trial) * 0x9E3779B97F4A7C15u + 1;
    std::vector<int32_t> tokens = {0};
    DraftTree draft = DrawChain(q, kind, num_draft, seed);
    for (int64_t step = 0; tokens.size() < 4; ++step) {
      const auto path = rule.Accept(
          draft, {rows, kVocab},
          {.tokens = tokens, .seed = seed, .step_index = step, .valid_vocab_size = kVocab});
      if (!path.ok()) return -1;
      tokens.insert(tokens.end(), path->tokens.begin(), path->tokens.end());
      draft.nodes.clear();
    }
    ++counts[static_cast<size_t>((tokens[1] * kVocab + tokens[2]) * kVocab + tokens[3])];
  }
  Table joint;
  for (const double a : scenario.p) {
    for (const double b : scenario.p) {
      for (const double c : scenario.p) joint.push_back(a * b * c);
    }
  }
  return ChiSquarePValue(counts, joint);
}

TEST(RejectionChain, B05TwoHundredThousandDrawsFollowP) {
  const auto rule = MakeRejectionChain(Options());
  for (const Scenario& scenario : kScenarios) {
    EXPECT_GT(EmissionPValue(*rule, scenario, DraftKind::kSampled, 2, 200000), kSmallestPValue)
        << scenario.name;
    EXPECT_GT(EmissionPValue(*rule, scenario, DraftKind::kArgmax, 1, 200000), kSmallestPValue)
        << scenario.name;
  }
  EXPECT_GT(EmissionPValue(*rule, kScenarios[0], DraftKind::kSampled, 3, 100000), kSmallestPValue);
}

TEST(RejectionChain, B05TheSameTestFailsThreePlantedWrongRules) {
  ResamplesFromP resamples;
  RedrawsAfterMatch redraws;
  const auto right = MakeRejectionChain(Options());
  for (const Scenario& scenario : {kScenarios[0], kScenarios[1]}) {
    EXPECT_LT(EmissionPValue(resamples, scenario, DraftKind::kSampled, 2, 50000), 1e-9);
    EXPECT_LT(EmissionPValue(redraws, scenario, DraftKind::kArgmax, 2, 50000), 1e-9);
    EXPECT_LT(EmissionPValue(*right, scenario, DraftKind::kArgmaxRecordedAsSoftmax, 2, 50000),
              1e-9);
  }
}

TEST(RejectionChain, AcceptanceRateIsTheOverlap) {
  const auto rule = MakeRejectionChain(Options());
  const Scenario& scenario = kScenarios[0];
  const TokenDistribution q = DistributionOf(scenario.q);
  std::vector<float> rows = LogitsOf(scenario.p);
  rows.insert(rows.end(), rows.begin(), rows.begin() + kVocab);
  const std::vector<int32_t> tokens = {0};
  constexpr int64_t kTrials = 100000;
  int64_t num_accepted = 0;
  for (int64_t trial = 0; trial < kTrials; ++trial) {
    const auto seed = static_cast<uint64_t>(trial);
    const auto path =
        rule->Accept(DrawChain(q, DraftKind::kSampled, 1, seed), {rows, kVocab},
                     {.tokens = tokens, .seed = seed, .step_index = 0, .valid_vocab_size = kVocab});
    ASSERT_TRUE(path.ok());
    EXPECT_EQ(path->num_tested, 1);
    num_accepted += static_cast<int64_t>(path->nodes.size());
  }
  double overlap = 0;
  for (size_t i = 0; i < kVocab; ++i) overlap += std::min(scenario.p[i], scenario.q[i]);
  const double standard_error = std::sqrt(overlap * (1 - overlap) / kTrials);
  EXPECT_NEAR(static_cast<double>(num_accepted) / kTrials, overlap, 3 * standard_error);
}

TEST(RejectionChain, DecisionsFollowTheStatedUniforms) {
  const auto rule = MakeRejectionChain(Options());
  const Scenario& scenario = kScenarios[1];
  const TokenDistribution p = DistributionOf(scenario.p), q = DistributionOf(scenario.q);
  std::vector<float> rows;
  for (int i = 0; i < 4; ++i) {
    for (const float logit : LogitsOf(scenario.p)) rows.push_back(logit);
  }
  const std::vector<int32_t> tokens = {3, 1, 4};
  for (int64_t step = 0; step < 2000; ++step) {
    const DraftTree draft = DrawChain(q, DraftKind::kSampled, 3, static_cast<uint64_t>(step));
    std::vector<int32_t> expected;
    for (uint32_t i = 0; i <= 3; ++i) {
      const double last = StepUniform(9, DrawPurpose::kResidual, step, i, 3 + i);
      if (i == 3) {
        expected.push_back(DrawFrom(p, last));
        break;
      }
      const int32_t token = draft.nodes[i].token;
      const double u = StepUniform(9, DrawPurpose::kAcceptance, step, i, 3 + i);
      if (u < AcceptanceProbability(p, q, token)) {
        expected.push_back(token);
        continue;
      }
      expected.push_back(DrawFrom(ResidualDistribution(p, q, token), last));
      break;
    }
    const auto path =
        rule->Accept(draft, {rows, kVocab},
                     {.tokens = tokens, .seed = 9, .step_index = step, .valid_vocab_size = kVocab});
    ASSERT_TRUE(path.ok());
    ASSERT_EQ(path->tokens, expected);
    ASSERT_EQ(path->nodes.size() + 1, expected.size());
    ASSERT_EQ(path->num_tested, std::min<int32_t>(3, static_cast<int32_t>(expected.size())));
  }
}

TEST(RejectionChain, TemperatureZeroIsGreedyMatching) {
  const auto rule = MakeAcceptanceRule(AcceptanceRuleKind::kRejection, Options(0));
  const std::vector<float> rows = {0, 1, 0, 0, 0, 0, 0, 0,   // best 1
                                   0, 0, 2, 0, 0, 2, 0, 0,   // best 2, a tie with 5
                                   0, 0, 0, 3, 0, 0, 0, 0};  // best 3
  const std::vector<int32_t> tokens = {0};
  const AcceptContext context = {
      .tokens = tokens, .seed = 1, .step_index = 0, .valid_vocab_size = kVocab};
  DraftTree draft;
  draft.nodes.resize(2);
  draft.nodes[0].token = 1;
  draft.nodes[1].token = 2;
  draft.nodes[1].parent = 0;
  auto path = rule->Accept(draft, {rows, kVocab}, context);
  ASSERT_TRUE(path.ok());
  EXPECT_THAT(path->tokens, ElementsAre(1, 2, 3));
  draft.nodes[1].token = 5;
  path = rule->Accept(draft, {rows, kVocab}, context);
  ASSERT_TRUE(path.ok());
  EXPECT_THAT(path->tokens, ElementsAre(1, 2));
  EXPECT_EQ(path->num_tested, 2);
}

TEST(RejectionChain, PenaltiesSeeThePathsOwnTokens) {
  SamplingOptions options = Options(0);
  options.presence_penalty = 5;
  const std::vector<float> rows = {0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0};
  DraftTree draft;
  draft.nodes.resize(1);
  draft.nodes[0].token = 1;
  const std::vector<int32_t> tokens = {0};
  const auto path = MakeRejectionChain(options)->Accept(
      draft, {rows, kVocab},
      {.tokens = tokens, .seed = 1, .step_index = 0, .valid_vocab_size = kVocab});
  ASSERT_TRUE(path.ok());
  EXPECT_THAT(path->tokens, ElementsAre(1, 2));
}

TEST(RejectionChain, RefusesTreesAndAQThatCannotBe) {
  const auto rule = MakeRejectionChain(Options());
  const std::vector<float> rows(3 * kVocab, 0.0f);
  const std::vector<int32_t> tokens = {0};
  const AcceptContext context = {
      .tokens = tokens, .seed = 1, .step_index = 0, .valid_vocab_size = kVocab};
  DraftTree draft;
  draft.nodes.resize(2);
  draft.nodes[1].token = 1;  // a second child of the root
  auto status = rule->Accept(draft, {rows, kVocab}, context).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("chain"));
  draft.nodes[1].parent = 0;
  draft.nodes[1].q.entries = {{2, 1.0}};  // cannot have drawn token 1
  status = rule->Accept(draft, {rows, kVocab}, context).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  draft.nodes[1].q.entries = {{1, 0.5}, {2, 0.4}};
  status = rule->Accept(draft, {rows, kVocab}, context).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  draft.nodes[1].q.entries = {{1, 0.5}, {2, 0.5}};
  EXPECT_TRUE(rule->Accept(draft, {rows, kVocab}, context).ok());
}

}  // namespace
}  // namespace tahmin
