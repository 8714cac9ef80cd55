#include "draft/draft_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "draft/draft_choices.h"
#include "draft/fake_target.h"
#include "draft/sampled_tree.h"
#include "gtest/gtest.h"
#include "model/model_fixture.h"
#include "sampling/candidates.h"
#include "sampling/keyed_draw.h"

namespace tahmin {
namespace {

constexpr uint64_t kSeed = 11;
constexpr int32_t kValidVocabSize = 300;  // 20 ids of the tiny models are padding

TinyModelOptions FlatModel() {
  TinyModelOptions options;
  options.logit_scale = 5;  // so that several tokens are likely
  options.seed = 3;
  return options;
}

class DraftModelTest : public testing::Test {
 protected:
  DraftModelTest() : model_(FlatModel()), slow_(*model_), pool_(2) { sampling_.temperature = 0; }

  std::unique_ptr<Drafter> Make(int32_t max_width, int64_t context_tokens = 256,
                                int32_t prefill_chunk = 32) {
    return *MakeDraftModel({.model = &*model_,
                            .pool = &pool_,
                            .context_tokens = context_tokens,
                            .prefill_chunk = prefill_chunk,
                            .max_width = max_width,
                            .valid_vocab_size = kValidVocabSize},
                           sampling_);
  }
  SequenceView View(const Tokens& tokens) const {
    return {.tokens = tokens, .sampling = &sampling_, .acceptance = acceptance_, .seed = kSeed};
  }
  // Logits behind a context, from an empty cache.
  std::vector<float> LogitsBehind(const Tokens& context) {
    const int32_t sequence = slow_.AddSequence();
    std::vector<float> logits = slow_.FeedChain(sequence, context, 64, false);
    slow_.cache().RemoveSequence(sequence);
    return logits;
  }
  // The target's own pick there, when the target is this model.
  int32_t PickBehind(const Tokens& context) {
    CandidateBuilder builder(sampling_);
    return KeyedDraw(*builder.Build(LogitsBehind(context), context, kValidVocabSize), kSeed,
                     static_cast<int64_t>(context.size()));
  }
  std::vector<DraftChoice> ChoicesBehind(const Tokens& context, int32_t most) {
    DraftChoices choices(sampling_);
    const auto ranked = *choices.Rank(LogitsBehind(context), context, kSeed, kValidVocabSize, most);
    return {ranked.begin(), ranked.end()};
  }

  // Every node carries what a chain along its path would have been offered.
  void ExpectNodesOfChains(const Tokens& tokens, const DraftTree& tree, int32_t max_width) {
    std::vector<Tokens> contexts;  // up to and with node i
    std::vector<int32_t> num_children(tree.nodes.size() + 1, 0);
    for (const DraftNode& node : tree.nodes) {
      const Tokens& context = node.parent == kRoot ? tokens : contexts[node.parent];
      const std::vector<DraftChoice> choices = ChoicesBehind(context, max_width);
      const int32_t rank = num_children[node.parent + 1]++;
      ASSERT_LT(static_cast<size_t>(rank), choices.size());
      ASSERT_EQ(node.token, choices[rank].token);
      ASSERT_EQ(node.confidence, choices[rank].confidence);
      contexts.push_back(context);
      contexts.back().push_back(node.token);
    }
  }

  SamplingOptions sampling_;
  AcceptanceRuleKind acceptance_ = AcceptanceRuleKind::kKeyed;
  TinyModel model_;
  ModelDriver slow_;
  ThreadPool pool_;
};

TEST_F(DraftModelTest, TreeNodesAreThoseOfChains) {
  for (const float temperature : {0.0f, 0.8f}) {
    sampling_.temperature = temperature;
    sampling_.repeat_penalty = 1.1f;  // looks at the path, too
    const auto drafter = Make(4);
    Tokens tokens = RandomTokens(9, 300, 5);
    drafter->Begin(View(tokens));
    for (int32_t step = 0; step < 12; ++step) {
      const DraftBudget budget = {
          .max_tokens = 3 + step, .max_depth = 5, .max_width = 2 + step % 3};
      const DraftTree tree = drafter->Draft(View(tokens), budget);
      ASSERT_EQ(tree.size(), budget.max_tokens);
      ASSERT_STREQ(BrokenPromise(tree, budget, kValidVocabSize), "");
      ExpectNodesOfChains(tokens, tree, budget.max_width);
      if (HasFatalFailure()) FAIL() << "step " << step << " at temperature " << temperature;
      // Commit a path that a target might take: down to a leaf, half way, or another token.
      int32_t node = step % 3 == 0 ? tree.size() - 1 : tree.size() / 2;
      Tokens path;
      for (; node != kRoot; node = tree.nodes[node].parent) path.push_back(tree.nodes[node].token);
      if (step % 3 != 2) tokens.insert(tokens.end(), path.rbegin(), path.rend());
      tokens.push_back((step * 37) % 300);
    }
  }
}

// The chain is the one without them; each node's next best choices are leaves behind it.
TEST_F(DraftModelTest, SpareChoicesHangBesideTheChain) {
  const auto with_spares = Make(1), plain = Make(1);
  Tokens tokens = RandomTokens(9, 300, 15);
  with_spares->Begin(View(tokens));
  plain->Begin(View(tokens));
  for (int32_t step = 0; step < 8; ++step) {
    const int32_t spares = 1 + step % 2, length = 3 + step % 3;
    const DraftTree chain = plain->Draft(View(tokens), {.max_tokens = length, .max_depth = length});
    const DraftTree tree = with_spares->Draft(
        View(tokens),
        {.max_tokens = length * (1 + spares), .max_depth = length, .spare_choices = spares});
    ASSERT_EQ(chain.size(), length);
    ASSERT_EQ(tree.size(), length * (1 + spares));
    ASSERT_NO_FATAL_FAILURE(ExpectNodesOfChains(tokens, tree, 1 + spares));
    for (int32_t i = 0; i < length; ++i) {
      const DraftNode& node = tree.nodes[i * (1 + spares)];
      EXPECT_EQ(node.token, chain.nodes[i].token);
      EXPECT_EQ(node.parent, i == 0 ? kRoot : (i - 1) * (1 + spares));
    }
    // The target takes the second choice at some depth, which the draft's cache does not hold.
    const int32_t depth = step % length;
    for (int32_t i = 0; i < depth; ++i) tokens.push_back(chain.nodes[i].token);
    tokens.push_back(tree.nodes[depth * (1 + spares) + 1].token);
  }
  // No more nodes than there is room for, and the chain comes first.
  const DraftTree tight =
      with_spares->Draft(View(tokens), {.max_tokens = 4, .max_depth = 3, .spare_choices = 2});
  EXPECT_EQ(tight.size(), 4);
  EXPECT_EQ(tight.Depth(), 3);
  // A sampled chain has none: its q would not be that of a draw among siblings.
  acceptance_ = AcceptanceRuleKind::kRejection;
  sampling_.temperature = 0.9f;
  with_spares->Begin(View(tokens));
  const DraftTree sampled =
      with_spares->Draft(View(tokens), {.max_tokens = 6, .max_depth = 3, .spare_choices = 1});
  EXPECT_EQ(sampled.size(), 3);
  EXPECT_EQ(sampled.Depth(), 3);
}

TEST_F(DraftModelTest, TreeIsTheSameInNarrowPasses) {
  // One row a pass: prompts in pieces of one token; trees still run in passes of several.
  const Tokens tokens = RandomTokens(20, 300, 6);
  const DraftBudget budget = {.max_tokens = 20, .max_depth = 6, .max_width = 4};
  const auto wide = Make(4), narrow = Make(4, 256, 1);
  wide->Begin(View(tokens));
  narrow->Begin(View(tokens));
  const DraftTree a = wide->Draft(View(tokens), budget), b = narrow->Draft(View(tokens), budget);
  ASSERT_EQ(a.size(), b.size());
  for (int32_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a.nodes[i].token, b.nodes[i].token);
    EXPECT_EQ(a.nodes[i].parent, b.nodes[i].parent);
  }
}

TEST_F(DraftModelTest, OwnTargetAcceptsEveryChain) {
  for (const float temperature : {0.0f, 0.8f, 1.5f}) {
    sampling_.temperature = temperature;
    const auto drafter = Make(1);
    Tokens tokens = RandomTokens(9, 300, 7);
    drafter->Begin(View(tokens));
    for (int32_t step = 0; step < 10; ++step) {
      const DraftTree tree =
          drafter->Draft(View(tokens), {.max_tokens = 4, .max_depth = 4, .max_width = 3});
      ASSERT_EQ(tree.size(), 4);
      for (int32_t i = 0; i < 4; ++i) {
        ASSERT_EQ(tree.nodes[i].parent, i - 1);
        ASSERT_EQ(tree.nodes[i].token, PickBehind(tokens)) << "temperature " << temperature;
        tokens.push_back(tree.nodes[i].token);
      }
      tokens.push_back(PickBehind(tokens));
    }
  }
}

TEST_F(DraftModelTest, FirstChildrenOfATreeAreTheTargetsPicks) {
  sampling_.temperature = 1.0f;
  const auto drafter = Make(3);
  const Tokens tokens = RandomTokens(9, 300, 8);
  drafter->Begin(View(tokens));
  const DraftTree tree =
      drafter->Draft(View(tokens), {.max_tokens = 12, .max_depth = 3, .max_width = 3});
  ASSERT_GT(tree.size(), 3);
  EXPECT_EQ(tree.nodes[0].token, PickBehind(tokens));
}

TEST_F(DraftModelTest, GreedyConfidenceIsTheProbabilityAtTemperatureOne) {
  const Tokens tokens = RandomTokens(9, 300, 9);
  const auto drafter = Make(1);
  drafter->Begin(View(tokens));
  const DraftTree tree = drafter->Draft(View(tokens), {.max_tokens = 1, .max_depth = 1});
  ASSERT_EQ(tree.size(), 1);
  std::vector<float> logits = LogitsBehind(tokens);
  logits.resize(kValidVocabSize);
  std::vector<float> best = logits;
  std::sort(best.rbegin(), best.rend());
  double total = 0;
  for (int32_t i = 0; i < 64; ++i) total += std::exp(static_cast<double>(best[i]) - best[0]);
  EXPECT_NEAR(tree.nodes[0].confidence, 1 / total, 1e-5);
  EXPECT_EQ(logits[tree.nodes[0].token], best[0]);
}

TEST_F(DraftModelTest, KeyedConfidencesAreOfNoisyLogits) {
  sampling_.temperature = 0.7f;
  const Tokens context = RandomTokens(5, 300, 10);
  const std::vector<DraftChoice> choices = ChoicesBehind(context, 40);
  CandidateBuilder builder(sampling_);
  const auto candidates = *builder.Build(LogitsBehind(context), context, kValidVocabSize);
  ASSERT_EQ(choices.size(), candidates.size());
  double sum = 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    EXPECT_GE(choices[i > 0 ? i - 1 : 0].confidence, choices[i].confidence);
    sum += choices[i].confidence;
  }
  EXPECT_NEAR(sum, 1, 1e-5);
  // Without those before it, each would have been drawn.
  std::vector<Candidate> left(candidates.begin(), candidates.end());
  for (const DraftChoice& choice : choices) {
    ASSERT_EQ(KeyedDraw(left, kSeed, static_cast<int64_t>(context.size())), choice.token);
    std::erase_if(left, [&](const Candidate& other) { return other.token == choice.token; });
  }
}

TEST_F(DraftModelTest, ChainStopsBehindTheTokenThatTooLittleSurvives) {
  const Tokens tokens = RandomTokens(9, 300, 12);
  const auto drafter = Make(1);
  drafter->Begin(View(tokens));
  DraftBudget budget = {.max_tokens = 8, .max_depth = 8};
  const DraftTree all = drafter->Draft(View(tokens), budget);
  ASSERT_EQ(all.size(), 8);
  float survival = 1;
  for (int32_t kept = 0; kept < 8; ++kept) {
    survival *= budget.scale.Of(all.nodes[kept].confidence);
    budget.min_survival = survival * 1.001f;
    const DraftTree cut = drafter->Draft(View(tokens), budget);
    ASSERT_EQ(cut.size(), kept + 1);
    for (int32_t i = 0; i <= kept; ++i) EXPECT_EQ(cut.nodes[i].token, all.nodes[i].token);
    budget.min_survival = survival * 0.999f;
    ASSERT_GE(drafter->Draft(View(tokens), budget).size(), std::min(kept + 2, 8));
  }
}

// With more to read than the budget allows it drafts as if the text began there.
TEST_F(DraftModelTest, StartsOverOnTheLastTokensWhenThereIsTooMuchToRead) {
  Tokens tokens = RandomTokens(60, 300, 14);
  const auto windowed = Make(1), shortened = Make(1);
  windowed->Begin(View(tokens));
  const DraftBudget budget = {.max_tokens = 4, .max_depth = 4, .max_catch_up = 20};
  for (int32_t step = 0; step < 3; ++step) {
    const Tokens last(tokens.begin() + 40, tokens.end());
    if (step == 0) shortened->Begin(View(last));
    const DraftTree got = windowed->Draft(View(tokens), budget);
    const DraftTree expected = shortened->Draft(View(last), {.max_tokens = 4, .max_depth = 4});
    ASSERT_EQ(got.size(), 4);
    for (int32_t i = 0; i < 4; ++i) {
      EXPECT_EQ(got.nodes[i].token, expected.nodes[i].token);
      EXPECT_EQ(got.nodes[i].confidence, expected.nodes[i].confidence);
    }
    // Five more tokens, some of them drafted: nothing starts over.
    for (int32_t i = 0; i < 3; ++i) tokens.push_back(got.nodes[i].token);
    tokens.push_back(7);
    tokens.push_back(8);
  }
}

TEST_F(DraftModelTest, AnotherTextEndsTheWindow) {
  const Tokens first = RandomTokens(60, 300, 15), second = RandomTokens(30, 300, 16);
  const auto used = Make(1), fresh = Make(1);
  used->Begin(View(first));
  used->Draft(View(first), {.max_tokens = 4, .max_depth = 4, .max_catch_up = 10});
  used->Begin(View(second));
  fresh->Begin(View(second));
  const DraftTree got = used->Draft(View(second), {.max_tokens = 4, .max_depth = 4});
  const DraftTree expected = fresh->Draft(View(second), {.max_tokens = 4, .max_depth = 4});
  ASSERT_EQ(got.size(), expected.size());
  for (int32_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got.nodes[i].token, expected.nodes[i].token);
    EXPECT_EQ(got.nodes[i].confidence, expected.nodes[i].confidence);
  }
}

TEST_F(DraftModelTest, RejectionRuleGetsAChainWithItsDistribution) {
  sampling_.temperature = 1.0f;
  acceptance_ = AcceptanceRuleKind::kRejection;
  const Tokens tokens = RandomTokens(9, 300, 13);
  const auto drafter = Make(4);
  drafter->Begin(View(tokens));
  const DraftTree tree =
      drafter->Draft(View(tokens), {.max_tokens = 6, .max_depth = 4, .max_width = 1});
  ASSERT_EQ(tree.size(), 4);
  for (int32_t i = 0; i < 4; ++i) {
    const DraftNode& node = tree.nodes[i];
    EXPECT_EQ(node.parent, i - 1);
    ASSERT_FALSE(node.q.entries.empty());
    EXPECT_FLOAT_EQ(node.confidence, static_cast<float>(node.q.ProbabilityOf(node.token)));
  }
}

// Every node's siblings were drawn from what the model says behind its parent.
TEST_F(DraftModelTest, RejectionRuleGetsASampledTreeWithItsDistributions) {
  sampling_.temperature = 1.0f;
  acceptance_ = AcceptanceRuleKind::kRejection;
  const auto drafter = Make(3);
  Tokens tokens = RandomTokens(9, 300, 17);
  drafter->Begin(View(tokens));
  CandidateBuilder builder(sampling_);
  for (int32_t step = 0; step < 4; ++step) {
    const DraftBudget budget = {.max_tokens = 10, .max_depth = 4, .max_width = 3};
    const DraftTree tree = drafter->Draft(View(tokens), budget);
    ASSERT_STREQ(BrokenPromise(tree, budget, kValidVocabSize), "");
    std::vector<int32_t> parents;
    std::vector<Tokens> contexts;
    std::map<int32_t, std::vector<int32_t>> drawn;  // children so far
    for (const DraftNode& node : tree.nodes) {
      const Tokens& context = node.parent == kRoot ? tokens : contexts[node.parent];
      const TokenDistribution q =
          ToDistribution(*builder.Build(LogitsBehind(context), context, kValidVocabSize));
      double left = 1;
      for (const int32_t sibling : drawn[node.parent]) left -= q.ProbabilityOf(sibling);
      EXPECT_EQ(node.q.entries.size(), q.entries.size() - drawn[node.parent].size());
      EXPECT_NEAR(node.q.ProbabilityOf(node.token), q.ProbabilityOf(node.token) / left, 1e-9);
      drawn[node.parent].push_back(node.token);
      parents.push_back(node.parent);
      contexts.push_back(context);
      contexts.back().push_back(node.token);
    }
    EXPECT_EQ(parents, SampledTreeShape(budget));
    tokens = contexts[step];  // another path each time
    tokens.push_back(step);
  }
}

TEST_F(DraftModelTest, TreeStopsWhereTheCacheIsFull) {
  const Tokens tokens = RandomTokens(30, 300, 14);
  const DraftBudget budget = {.max_tokens = 16, .max_depth = 8, .max_width = 4};
  for (int64_t context_tokens = 29; context_tokens < 48; ++context_tokens) {
    const auto drafter = Make(4, context_tokens);
    drafter->Begin(View(tokens));
    for (int32_t again = 0; again < 2; ++again) {
      const DraftTree tree = drafter->Draft(View(tokens), budget);
      EXPECT_EQ(tree.empty(), context_tokens < 30);
      ASSERT_STREQ(BrokenPromise(tree, budget, kValidVocabSize), "");
      ExpectNodesOfChains(tokens, tree, budget.max_width);
      if (HasFatalFailure()) FAIL() << context_tokens << " slots";
    }
  }
}

}  // namespace
}  // namespace tahmin
