// The rejection rule end to end: another draw than plain decoding, from the same distribution.
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kv/kv_cache.h"
#include "model/model.h"
#include "sampling/candidates.h"
#include "sampling/chi_square_for_test.h"
#include "tests/lossless/tiny_engine.h"
#include "tokenizer/tokenizer.h"

namespace tahmin {
namespace {

GenerationRequest RejectionRequest(uint64_t seed) {
  GenerationRequest request = TinyRequest(TinyPrompt(7, 8));
  request.options.acceptance = AcceptanceRuleKind::kRejection;
  request.options.sampling.temperature = 1.3f;
  request.options.sampling.top_k = 4;
  request.options.sampling.top_p = 1.0f;
  request.options.sampling.min_p = 0.0f;
  request.options.sampling.seed = seed;
  // Ends of text would make some outputs shorter than the cells.
  request.options.ignore_end_tokens = true;
  return request;
}

// p of the token behind some tokens, from a pass of its own.
class ExactDistribution {
 public:
  ExactDistribution(Engine& engine, const SamplingOptions& sampling)
      : engine_(engine), cache_(engine.model().MakeKvShape(KvType::kF16)), builder_(sampling) {
    scratch_ = *engine.model().CreateScratch(64, 1, engine.pool());
    sequence_ = *cache_.AddSequence(64);
  }

  TokenDistribution Behind(const std::vector<int32_t>& tokens) {
    const auto num_tokens = static_cast<int32_t>(tokens.size());
    TokenBatch batch;
    batch.AppendChain(sequence_, tokens.data(), num_tokens, false);
    EXPECT_TRUE(cache_.Reserve(sequence_, num_tokens).ok());
    engine_.model().Forward(batch, cache_, *scratch_, engine_.pool());
    cache_.Rollback(sequence_);
    const auto candidates =
        builder_.Build(scratch_->logits(), tokens, engine_.tokenizer().vocab_size());
    EXPECT_TRUE(candidates.ok()) << candidates.status();
    return ToDistribution(*candidates);
  }

 private:
  Engine& engine_;
  KvCache cache_;
  CandidateBuilder builder_;
  std::unique_ptr<ForwardScratch> scratch_;
  int32_t sequence_ = -1;
};

using ThreeTokens = std::array<int32_t, 3>;

// Exact probability of every first three tokens of text.
std::map<ThreeTokens, double> ExactThreeTokens(Engine& engine) {
  const GenerationRequest request = RejectionRequest(0);
  SamplingOptions sampling = request.options.sampling;
  for (int32_t end : engine.tokenizer().special_tokens().end_of_generation) {
    sampling.logit_bias.emplace_back(end, -INFINITY);
  }
  ExactDistribution exact(engine, sampling);
  std::map<ThreeTokens, double> probabilities;
  std::vector<int32_t> tokens = request.prompt_tokens;
  for (const TokenProbability& first : exact.Behind(tokens).entries) {
    tokens.push_back(first.token);
    for (const TokenProbability& second : exact.Behind(tokens).entries) {
      tokens.push_back(second.token);
      for (const TokenProbability& third : exact.Behind(tokens).entries) {
        probabilities[{first.token, second.token, third.token}] =
            first.probability * second.probability * third.probability;
      }
      tokens.pop_back();
    }
    tokens.pop_back();
  }
  return probabilities;
}

class RejectionRule : public testing::TestWithParam<std::string> {};

TEST_P(RejectionRule, WritesWithTheTargetsProbabilitiesB05) {
  constexpr uint64_t kNumSeeds = 4000;
  auto engine = MakeTinyEngine({.draft = GetParam(), .context_tokens = 32});
  const std::map<ThreeTokens, double> expected = ExactThreeTokens(*engine);
  struct Setting {
    const char* drafter;
    int32_t draft_max, width;
  };
  for (const auto& [drafter, draft_max, width] : {Setting{"draft", 2, 1}, Setting{"draft", 5, 3},
                                                  Setting{"lookup", 2, 1}, Setting{"none", 0, 1}}) {
    std::map<ThreeTokens, int64_t> counts;
    int64_t drafted = 0, accepted = 0;
    for (uint64_t seed = 0; seed < kNumSeeds; ++seed) {
      GenerationRequest request = WithDrafter(RejectionRequest(seed), drafter, draft_max);
      request.draft.draft_width = width;
      request.options.max_tokens = 4;  // the first from the prefill, then a block of three
      request.draft.lookup_min_ngram = 1;
      const GenerationResult result = Generate(*engine, request);
      ASSERT_EQ(result.tokens.size(), 4u);
      counts[{result.tokens[0], result.tokens[1], result.tokens[2]}] += 1;
      drafted += result.stats.drafted;
      accepted += result.stats.accepted;
    }
    ASSERT_GT(expected.size(), 6u);
    EXPECT_GT(PValueOfCounts(counts, expected), 2e-4) << drafter << " of width " << width;
    if (std::string(drafter) == "draft") {
      EXPECT_GT(drafted, 0);
      if (GetParam() == "same" && width == 1) {  // p = q is always kept
        EXPECT_EQ(accepted, drafted);
      }
      if (GetParam() != "same") {  // the residual was drawn from, too
        EXPECT_LT(accepted, drafted);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Drafts, RejectionRule, testing::Values("same", "close", "strange"));

TEST(RejectionRuleRepeats, TextIsAFunctionOfSeedDrafterAndBudget) {
  auto one = MakeTinyEngine({.draft = "close"});
  auto other = MakeTinyEngine({.draft = "close", .threads = 3, .prefill_chunk = 2});
  for (uint64_t seed : {1, 2, 3, 4}) {
    for (int32_t draft_max : {1, 2, 5}) {
      GenerationRequest request = WithDrafter(RejectionRequest(seed), "draft", draft_max);
      request.options.max_tokens = 24;
      const GenerationResult first = Generate(*one, request);
      ExpectSameOutput(first, Generate(*one, request));
      ExpectSameOutput(first, Generate(*other, request));
    }
  }
}

TEST(RejectionRuleRepeats, AtTemperatureZeroItIsGreedyDecoding) {
  auto engine = MakeTinyEngine({.draft = "close"});
  GenerationRequest request = TinyRequest(TinyPrompt(9));
  const GenerationResult greedy = Generate(*engine, request);
  request.options.acceptance = AcceptanceRuleKind::kRejection;
  for (const char* drafter : {"none", "draft", "lookup", "junk"}) {
    ExpectSameOutput(greedy, Generate(*engine, WithDrafter(request, drafter, 4)));
  }
}

}  // namespace
}  // namespace tahmin
