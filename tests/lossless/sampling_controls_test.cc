// Penalties, biases, filters, seeds and log-probabilities on the speculative path.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/lossless/tiny_engine.h"

namespace tahmin {
namespace {

struct NamedControl {
  std::string name;
  void (*set)(SamplingOptions& sampling);
};

const NamedControl kControls[] = {
    {"repeat_penalty", [](SamplingOptions& s) { s.repeat_penalty = 1.3f; }},
    {"repeat_penalty_all",
     [](SamplingOptions& s) { s.repeat_penalty = 1.3f, s.penalty_window = -1; }},
    {"frequency_penalty", [](SamplingOptions& s) { s.frequency_penalty = 0.9f; }},
    {"presence_penalty", [](SamplingOptions& s) { s.presence_penalty = 2.5f; }},
    {"short_window", [](SamplingOptions& s) { s.presence_penalty = 4.0f, s.penalty_window = 2; }},
    {"logit_bias",
     [](SamplingOptions& s) {
       s.logit_bias = {{40, 5.0f}, {50, 4.0f}, {60, 3.0f}};
     }},
    {"top_k", [](SamplingOptions& s) { s.top_k = 3; }},
    {"top_p", [](SamplingOptions& s) { s.top_p = 0.5f; }},
    {"min_p", [](SamplingOptions& s) { s.min_p = 0.4f; }},
    {"no_filters", [](SamplingOptions& s) { s.top_k = 0, s.top_p = 1.0f, s.min_p = 0.0f; }},
};

class SamplingControls : public testing::TestWithParam<NamedControl> {};

TEST_P(SamplingControls, EqualPlainWithEveryDrafterB15) {
  auto engine = MakeTinyEngine({.draft = "same", .threads = 2});
  auto close = MakeTinyEngine({.draft = "close"});
  bool has_effect = false;
  for (uint64_t seed : {0, 3, 4}) {
    GenerationRequest request = TinyRequest(TinyPrompt(12, 6));
    request.options.max_tokens = 48;
    request.options.ignore_end_tokens = true;
    if (seed != 0) request = WithSeed(request, seed);
    const GenerationResult without = Generate(*engine, request);
    GetParam().set(request.options.sampling);
    const GenerationResult plain = Generate(*engine, request);
    has_effect = has_effect || plain.tokens != without.tokens;
    for (int32_t draft_max : {1, 3, 4, 8}) {
      SCOPED_TRACE("K=" + std::to_string(draft_max));
      for (const char* drafter : {"draft", "lookup", "junk"}) {
        ExpectSameOutput(plain, Generate(*engine, WithDrafter(request, drafter, draft_max)));
        ExpectSameOutput(plain, Generate(*close, WithDrafter(request, drafter, draft_max)));
      }
      const GenerationResult own = Generate(*engine, WithDrafter(request, "draft", draft_max));
      EXPECT_EQ(own.stats.accepted, own.stats.drafted);  // the draft sees the same history
      ExpectSameOutput(plain, Generate(*engine, WithReplay(request, plain.tokens, draft_max)));
    }
  }
  EXPECT_TRUE(has_effect) << "the control changed nothing: the test would not see it dropped";
}

INSTANTIATE_TEST_SUITE_P(All, SamplingControls, testing::ValuesIn(kControls),
                         [](const auto& info) { return info.param.name; });

TEST(SamplingControls, TemperatureZeroWinsOverAllFiltersB17) {
  auto engine = MakeTinyEngine();
  const GenerationRequest request = TinyRequest(TinyPrompt(12, 6));
  const GenerationResult greedy = Generate(*engine, request);
  for (const NamedControl& control : kControls) {
    if (control.name != "top_k" && control.name != "top_p" && control.name != "min_p") continue;
    GenerationRequest filtered = request;
    control.set(filtered.options.sampling);
    filtered.options.sampling.seed = 5;
    ExpectSameOutput(greedy, Generate(*engine, filtered));
    ExpectSameOutput(greedy, Generate(*engine, WithDrafter(filtered, "draft", 4)));
  }
}

TEST(SamplingControls, SeedsDecideAndAreReportedB05) {
  auto engine = MakeTinyEngine();
  GenerationRequest request = TinyRequest(TinyPrompt(12, 6));
  request.options.sampling.temperature = 1.0f;
  request.options.max_tokens = 6;
  const GenerationResult random = Generate(*engine, request);
  request.options.sampling.seed = random.seed;
  ExpectSameOutput(random, Generate(*engine, request));

  std::set<int32_t> first_tokens;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    request.options.sampling.seed = seed;
    request.options.max_tokens = 1;
    const GenerationResult result = Generate(*engine, request);
    if (!result.tokens.empty()) first_tokens.insert(result.tokens[0]);
  }
  EXPECT_GT(first_tokens.size(), 3u);  // not the most likely token every time
}

void ExpectSameLogprobs(const GenerationResult& plain, const GenerationResult& other) {
  ASSERT_EQ(plain.logprobs.size(), other.logprobs.size());
  for (size_t i = 0; i < plain.logprobs.size(); ++i) {
    SCOPED_TRACE("token " + std::to_string(i));
    const TokenEvent& a = plain.logprobs[i];
    const TokenEvent& b = other.logprobs[i];
    EXPECT_EQ(a.token, b.token);
    EXPECT_EQ(a.logprob, b.logprob);  // the same bits
    ASSERT_EQ(a.top.size(), b.top.size());
    for (size_t j = 0; j < a.top.size(); ++j) {
      EXPECT_EQ(a.top[j].token, b.top[j].token);
      EXPECT_EQ(a.top[j].logprob, b.top[j].logprob);
    }
  }
}

TEST(SamplingControls, LogprobsEqualPlainValueByValueB18) {
  auto engine = MakeTinyEngine({.threads = 2, .prefill_chunk = 3});
  for (uint64_t seed : {0, 8}) {
    GenerationRequest request = TinyRequest(TinyPrompt(12, 6));
    request.options.num_logprobs = 3;
    request.options.sampling.repeat_penalty = 1.2f;
    request.options.ignore_end_tokens = true;
    if (seed != 0) request = WithSeed(request, seed);
    const GenerationResult plain = Generate(*engine, request);
    ASSERT_EQ(plain.logprobs.size(), plain.tokens.size());
    for (size_t i = 0; i < plain.tokens.size(); ++i) {
      EXPECT_EQ(plain.logprobs[i].token, plain.tokens[i]);
      EXPECT_LT(plain.logprobs[i].logprob, 0.0f);
      ASSERT_EQ(plain.logprobs[i].top.size(), 3u);
      EXPECT_GE(plain.logprobs[i].top[0].logprob, plain.logprobs[i].logprob);
    }
    for (int32_t draft_max : {1, 4, 7}) {
      for (const char* drafter : {"draft", "lookup", "junk"}) {
        ExpectSameLogprobs(plain, Generate(*engine, WithDrafter(request, drafter, draft_max)));
      }
      // Accepted, corrected and bonus tokens: a replay that goes wrong at every seventh token.
      std::vector<int32_t> spoiled = plain.tokens;
      ExpectSameLogprobs(plain, Generate(*engine, WithReplay(request, spoiled, draft_max)));
      for (size_t i = 6; i < spoiled.size(); i += 7) spoiled[i] = TinyVocabulary::kTurnStart;
      ExpectSameLogprobs(plain, Generate(*engine, WithReplay(request, spoiled, draft_max)));
    }
  }
}

TEST(SamplingControls, ThreeAnswersAreThreeSeededRunsB33) {
  // One request at a time: n answers are n requests, and one never disturbs the next.
  auto engine = MakeTinyEngine();
  std::vector<GenerationResult> in_a_row;
  for (uint64_t seed : {7, 8, 9}) {
    in_a_row.push_back(
        Generate(*engine, WithDrafter(WithSeed(TinyRequest(TinyPrompt(9)), seed), "draft", 4)));
  }
  for (uint64_t i = 0; i < 3; ++i) {
    auto alone = MakeTinyEngine();
    ExpectSameOutput(in_a_row[i], Generate(*alone, WithSeed(TinyRequest(TinyPrompt(9)), 7 + i)));
  }
}

}  // namespace
}  // namespace tahmin
