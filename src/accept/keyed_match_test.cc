#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "accept/acceptance_rule.h"
#include "sampling/keyed_draw.h"

namespace tahmin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int32_t kVocab = 16;

SamplingOptions Options(float temperature) {
  SamplingOptions options;
  options.temperature = temperature;
  options.top_k = 0;
  options.top_p = 1;
  options.min_p = 0;
  return options;
}

// A toy target: the row depends on the last token.
std::vector<float> RowAfter(int32_t token) {
  std::mt19937 random(static_cast<uint32_t>(token) + 100);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> row(kVocab);
  for (float& logit : row) logit = normal(random);
  return row;
}

std::vector<float> RowsOf(const DraftTree& draft, int32_t root_token) {
  std::vector<float> logits = RowAfter(root_token);
  for (const DraftNode& node : draft.nodes) {
    const std::vector<float> row = RowAfter(node.token);
    logits.insert(logits.end(), row.begin(), row.end());
  }
  return logits;
}

absl::StatusOr<AcceptedPath> Step(AcceptanceRule& rule, const DraftTree& draft,
                                  const std::vector<int32_t>& tokens, int64_t step_index) {
  const std::vector<float> logits = RowsOf(draft, tokens.back());
  return rule.Accept(
      draft, {logits, kVocab},
      {.tokens = tokens, .seed = 7, .step_index = step_index, .valid_vocab_size = kVocab});
}

std::vector<int32_t> PlainTokens(const SamplingOptions& options, size_t length) {
  const auto rule = MakeKeyedMatch(options);
  std::vector<int32_t> tokens = {1, 2, 3};
  while (tokens.size() < length) {
    const auto path = Step(*rule, {}, tokens, static_cast<int64_t>(tokens.size()));
    tokens.push_back(path->tokens.at(0));
  }
  return tokens;
}

DraftNode Node(int32_t token, int32_t parent) {
  DraftNode node;
  node.token = token;
  node.parent = parent;
  return node;
}

// A random tree of up to `size` nodes that follows the true continuation now and then.
DraftTree RandomTree(std::mt19937& random, const std::vector<int32_t>& truth, size_t position,
                     int32_t size) {
  DraftTree tree;
  std::vector<size_t> depth;
  for (int32_t i = 0; i < size; ++i) {
    const auto num_parents = static_cast<uint32_t>(tree.size() + 1);  // the root too
    const auto parent = static_cast<int32_t>(random() % num_parents) - 1;
    const size_t at = parent == kRoot ? 0 : depth[static_cast<size_t>(parent)] + 1;
    const bool is_true = random() % 3 != 0 && position + at < truth.size();
    const int32_t token = is_true ? truth[position + at] : static_cast<int32_t>(random() % kVocab);
    if (tree.FindChild(parent, token) >= 0) continue;
    tree.nodes.push_back(Node(token, parent));
    depth.push_back(at);
  }
  return tree;
}

TEST(KeyedMatch, EmitsThePlainTokensWhateverIsDrafted) {
  for (const float temperature : {0.0f, 0.7f, 1.5f}) {
    SamplingOptions options = Options(temperature);
    options.presence_penalty = 0.7f;  // history-dependent, so rows must see the path's own tokens
    const std::vector<int32_t> truth = PlainTokens(options, 400);
    std::mt19937 random(5);
    const auto rule = MakeKeyedMatch(options);
    std::vector<int32_t> tokens(truth.begin(), truth.begin() + 3);
    int64_t num_accepted = 0;
    for (int64_t step = 0; tokens.size() < truth.size() - 10; ++step) {
      const DraftTree tree = RandomTree(random, truth, tokens.size(), 8);
      const auto path = Step(*rule, tree, tokens, step);
      ASSERT_TRUE(path.ok());
      ASSERT_EQ(path->tokens.size(), path->nodes.size() + 1);
      for (const int32_t token : path->tokens) {
        ASSERT_EQ(token, truth[tokens.size()]);
        tokens.push_back(token);
      }
      num_accepted += static_cast<int64_t>(path->nodes.size());
    }
    EXPECT_GT(num_accepted, 50);
  }
}

TEST(KeyedMatch, AFullyRightChainIsAcceptedWithABonusToken) {
  const SamplingOptions options = Options(0.9f);
  const std::vector<int32_t> truth = PlainTokens(options, 12);
  DraftTree chain;
  for (int32_t i = 0; i < 5; ++i)
    chain.nodes.push_back(Node(truth[static_cast<size_t>(3 + i)], i - 1));
  const auto path = Step(*MakeKeyedMatch(options), chain, {truth.begin(), truth.begin() + 3}, 0);
  ASSERT_TRUE(path.ok());
  EXPECT_THAT(path->nodes, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(path->tokens, std::vector<int32_t>(truth.begin() + 3, truth.begin() + 9));
  EXPECT_EQ(path->num_tested, 5);
}

TEST(KeyedMatch, AWrongSecondTokenEndsTheWalk) {
  const SamplingOptions options = Options(0.9f);
  const std::vector<int32_t> truth = PlainTokens(options, 12);
  DraftTree chain;
  chain.nodes = {Node(truth[3], kRoot), Node((truth[4] + 1) % kVocab, 0), Node(truth[5], 1)};
  const auto path = Step(*MakeKeyedMatch(options), chain, {truth.begin(), truth.begin() + 3}, 0);
  ASSERT_TRUE(path.ok());
  EXPECT_THAT(path->nodes, ElementsAre(0));
  EXPECT_THAT(path->tokens, ElementsAre(truth[3], truth[4]));
  EXPECT_EQ(path->num_tested, 2);
}

TEST(KeyedMatch, AProbeCountsOnlyWhereItIsAccepted) {
  const SamplingOptions options = Options(0.9f);
  const std::vector<int32_t> truth = PlainTokens(options, 12);
  const std::vector<int32_t> text(truth.begin(), truth.begin() + 3);
  DraftTree tree;
  tree.nodes = {Node((truth[3] + 1) % kVocab, kRoot)};
  tree.nodes[0].is_probe = true;
  auto path = Step(*MakeKeyedMatch(options), tree, text, 0);
  ASSERT_TRUE(path.ok());
  EXPECT_EQ(path->num_tested, 0);
  tree.nodes[0].token = truth[3];
  path = Step(*MakeKeyedMatch(options), tree, text, 0);
  ASSERT_TRUE(path.ok());
  EXPECT_THAT(path->nodes, ElementsAre(0));
  EXPECT_EQ(path->num_tested, 1);
}

TEST(KeyedMatch, AnEmptyTreeTestsNothing) {
  const auto path = Step(*MakeKeyedMatch(Options(1)), {}, {1, 2, 3}, 0);
  ASSERT_TRUE(path.ok());
  EXPECT_THAT(path->nodes, IsEmpty());
  EXPECT_EQ(path->num_tested, 0);
}

TEST(KeyedMatch, RowsBelowTheFirstMismatchAreNotLookedAt) {
  const SamplingOptions options = Options(0.9f);
  const std::vector<int32_t> truth = PlainTokens(options, 12);
  DraftTree chain;
  chain.nodes = {Node((truth[3] + 1) % kVocab, kRoot)};
  std::vector<float> logits = RowAfter(3);
  logits.resize(2 * kVocab, std::numeric_limits<float>::quiet_NaN());
  const std::vector<int32_t> tokens = {1, 2, 3};
  const AcceptContext context = {
      .tokens = tokens, .seed = 7, .step_index = 0, .valid_vocab_size = kVocab};
  const auto rule = MakeAcceptanceRule(AcceptanceRuleKind::kKeyed, options);
  const auto path = rule->Accept(chain, {logits, kVocab}, context);
  ASSERT_TRUE(path.ok());
  EXPECT_THAT(path->tokens, ElementsAre(truth[3]));
  chain.nodes[0].token = truth[3];  // accepted, so its row of NaNs is reached
  EXPECT_EQ(rule->Accept(chain, {logits, kVocab}, context).status().code(),
            absl::StatusCode::kInternal);
}

// Shared keys: P(match) = sum over x of 1 / sum over y of max(p(y)/p(x), q(y)/q(x)).
TEST(KeyedMatch, AcceptanceWithSharedKeysFollowsTheFormula) {
  for (const float distance : {0.0f, 0.3f, 1.0f, 3.0f}) {
    std::mt19937 random(31);
    std::normal_distribution<float> normal(0, 1);
    std::vector<Candidate> p_logits, q_logits;
    for (int32_t i = 0; i < 20; ++i) {
      const float logit = 1.5f * normal(random);
      p_logits.push_back({i, logit});
      q_logits.push_back({i, logit + distance * normal(random)});
    }
    const TokenDistribution p = ToDistribution(p_logits), q = ToDistribution(q_logits);
    double predicted = 0, variation = 0;
    for (int32_t x = 0; x < 20; ++x) {
      double sum = 0;
      for (int32_t y = 0; y < 20; ++y) {
        sum += std::max(p.ProbabilityOf(y) / p.ProbabilityOf(x),
                        q.ProbabilityOf(y) / q.ProbabilityOf(x));
      }
      predicted += 1 / sum;
      variation += std::abs(p.ProbabilityOf(x) - q.ProbabilityOf(x)) / 2;
    }
    constexpr int64_t kTrials = 200000;
    int64_t matches = 0;
    for (int64_t i = 0; i < kTrials; ++i) {
      matches += KeyedDraw(p_logits, 12, i) == KeyedDraw(q_logits, 12, i);
    }
    const double measured = static_cast<double>(matches) / kTrials;
    const double standard_error = std::sqrt(predicted * (1 - predicted) / kTrials);
    EXPECT_NEAR(measured, predicted, 3 * standard_error + 1e-12) << distance;
    EXPECT_GE(predicted, (1 - variation) / (1 + variation) - 1e-12);
    EXPECT_LE(predicted, 1 - variation + 1e-12);
    EXPECT_GE(measured, (1 - variation) / (1 + variation) - 3 * standard_error - 1e-12);
    EXPECT_LE(measured, 1 - variation + 3 * standard_error + 1e-12);
  }
}

}  // namespace
}  // namespace tahmin
