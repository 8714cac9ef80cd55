// Turns of a chat that go on from the cache, and requests that are cancelled or fail on the way.
#include <atomic>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "draft/test_drafters.h"
#include "gtest/gtest.h"
#include "tests/lossless/tiny_engine.h"
#include "tokenizer/tokenizer.h"

namespace tahmin {
namespace {

std::vector<int32_t> Joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// What a new engine writes.
GenerationResult ColdRun(GenerationRequest request) {
  auto engine = MakeTinyEngine({.context_tokens = 400});
  request.reuse_cache = false;
  request.draft = {};
  return Generate(*engine, request);
}

class CacheReuse : public testing::TestWithParam<std::string> {
 protected:
  CacheReuse()
      : engine_(MakeTinyEngine({.threads = 2, .context_tokens = 400, .prefill_chunk = 16})) {}

  GenerationResult RunWarm(GenerationRequest request) {
    request.reuse_cache = true;
    return Generate(*engine_, WithDrafter(std::move(request), GetParam(), 5));
  }

  std::unique_ptr<Engine> engine_;
};

TEST_P(CacheReuse, SamePromptThreeTimesB29) {
  for (const GenerationRequest& request :
       {TinyRequest(TinyPrompt(200)), WithSeed(TinyRequest(TinyPrompt(200, 1)), 3)}) {
    const GenerationResult cold = ColdRun(request);
    for (int32_t turn = 0; turn < 3; ++turn) {
      const GenerationResult warm = RunWarm(request);
      ExpectSameOutput(cold, warm);
      EXPECT_EQ(warm.stats.prompt_tokens, 200);
      // All but the last prompt token, which runs again for its logits.
      if (turn > 0) {
        EXPECT_EQ(warm.stats.cached_prompt_tokens, 199);
      }
    }
  }
}

TEST_P(CacheReuse, SharedHalfB29) {
  const std::vector<int32_t> shared = TinyPrompt(100);
  RunWarm(TinyRequest(Joined(shared, TinyPrompt(60, 1))));
  const GenerationRequest other = TinyRequest(Joined(shared, TinyPrompt(50, 2)));
  const GenerationResult warm = RunWarm(other);
  ExpectSameOutput(ColdRun(other), warm);
  EXPECT_EQ(warm.stats.cached_prompt_tokens, 100);
}

TEST_P(CacheReuse, ChatOfSeveralTurnsB29) {
  std::vector<int32_t> history = TinyPrompt(20);
  for (uint32_t turn = 0; turn < 5; ++turn) {
    GenerationRequest request = WithSeed(TinyRequest(history), turn + 1);
    request.options.max_tokens = 21;
    const GenerationResult warm = RunWarm(request);
    ExpectSameOutput(ColdRun(request), warm);
    if (turn > 0) {
      EXPECT_GE(warm.stats.cached_prompt_tokens, static_cast<int64_t>(20));
    }
    history = Joined(Joined(history, warm.tokens), TinyPrompt(7, turn + 1));
  }
}

INSTANTIATE_TEST_SUITE_P(EveryDrafter, CacheReuse,
                         testing::Values("none", "draft", "lookup", "junk"));

TEST(CacheReuseScript, RejectedTokensAreNeverPartOfThePrefixB29) {
  // Every step drafts tokens that are rejected; the next prompt goes on with just those.
  auto engine = MakeTinyEngine({.context_tokens = 400});
  GenerationRequest request = TinyRequest(TinyPrompt(30));
  request.options.max_tokens = 8;
  request.options.ignore_end_tokens = true;
  const GenerationResult plain = ColdRun(request);
  for (size_t step = 0; step < 6; ++step) {
    const std::vector<int32_t> wrong(4, TinyVocabulary::kTurnStart);
    std::vector<DraftTree> trees(8, Chain(wrong));
    GenerationRequest scripted = WithDrafter(request, "script", 4);
    scripted.script_tokens = EncodeScript(trees);
    scripted.reuse_cache = true;
    ExpectSameOutput(plain, Generate(*engine, scripted));

    // Diverges behind `step` tokens of the answer, into the tokens that were drafted there.
    std::vector<int32_t> prompt = request.prompt_tokens;
    prompt.insert(prompt.end(), plain.tokens.begin(), plain.tokens.begin() + step + 1);
    GenerationRequest diverging = TinyRequest(Joined(prompt, wrong));
    diverging.reuse_cache = true;
    const GenerationResult warm = Generate(*engine, WithDrafter(diverging, "draft", 4));
    EXPECT_EQ(warm.stats.cached_prompt_tokens, static_cast<int64_t>(prompt.size()));
    ExpectSameOutput(ColdRun(diverging), warm);
  }
}

TEST(CacheReuseScript, CutBlockIsNeverPartOfThePrefixB09B29) {
  // Generation ends inside a fully accepted block; what lay behind the end is not reused.
  auto engine = MakeTinyEngine({.context_tokens = 400});
  GenerationRequest request = TinyRequest(TinyPrompt(30));
  request.options.ignore_end_tokens = true;
  const GenerationResult whole = ColdRun(request);
  for (size_t place = 1; place < 12; ++place) {
    GenerationRequest ended = request;
    ended.options.end_tokens = {whole.tokens[place]};
    ended.reuse_cache = true;
    const GenerationResult first = Generate(*engine, WithReplay(ended, whole.tokens, 8));
    // The next turn repeats the end token and goes on as the dropped part of the block did.
    GenerationRequest next = TinyRequest(Joined(request.prompt_tokens, whole.tokens));
    next.reuse_cache = true;
    const GenerationResult second = Generate(*engine, next);
    EXPECT_EQ(second.stats.cached_prompt_tokens,
              static_cast<int64_t>(request.prompt_tokens.size() + first.tokens.size()));
    ExpectSameOutput(ColdRun(next), second);
  }
}

TEST(CacheReuseScript, SettingsMayChangeBetweenTurnsB29) {
  auto engine = MakeTinyEngine({.context_tokens = 400});
  GenerationRequest request = TinyRequest(TinyPrompt(50));
  request.reuse_cache = true;
  const GenerationResult cold = ColdRun(request);
  for (const char* drafter : {"draft", "lookup", "draft", "none", "junk", "draft"}) {
    for (int32_t threads : {1, 3}) {
      engine->SetNumThreads(threads);
      engine->SetPrefillChunk(threads + 1);
      EXPECT_EQ(engine->num_threads(), threads);
      ExpectSameOutput(cold, Generate(*engine, WithDrafter(request, drafter, 2 + threads)));
    }
  }
}

TEST(Cancel, StopsWithinOneStepB32) {
  auto engine = MakeTinyEngine({.context_tokens = 400});
  GenerationRequest request = TinyRequest(TinyPrompt(20));
  request.options.max_tokens = 300;
  request.options.ignore_end_tokens = true;
  const GenerationResult whole = ColdRun(request);
  for (const char* drafter : {"none", "draft", "lookup", "junk"}) {
    std::atomic<bool> cancel = false;
    GenerationRequest cancelled = WithDrafter(request, drafter, 7);
    cancelled.cancel = &cancel;
    int32_t num_seen = 0;
    std::string streamed;
    const auto result = engine->Generate(cancelled, [&](const TokenEvent& event) {
      streamed += event.text_delta;
      if (++num_seen == 25) cancel = true;
    });
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->finish_reason, "cancelled");
    EXPECT_GE(result->tokens.size(), 25u);
    EXPECT_LE(result->tokens.size(), 25u + 7u);  // the block that was under way
    EXPECT_EQ(result->text, streamed);
    const std::vector<int32_t> prefix(whole.tokens.begin(),
                                      whole.tokens.begin() + result->tokens.size());
    EXPECT_EQ(result->tokens, prefix);

    // What was written stays in the cache and is right.
    GenerationRequest next = TinyRequest(Joined(request.prompt_tokens, result->tokens));
    next.reuse_cache = true;
    const GenerationResult warm = Generate(*engine, WithDrafter(next, drafter, 3));
    EXPECT_GT(warm.stats.cached_prompt_tokens, 40);
    ExpectSameOutput(ColdRun(next), warm);
  }
}

TEST(Cancel, DuringThePrefillB32) {
  auto engine = MakeTinyEngine({.context_tokens = 400, .prefill_chunk = 10});
  std::atomic<bool> cancel = false;
  GenerationRequest request = TinyRequest(TinyPrompt(100));
  request.cancel = &cancel;
  const auto result =
      engine->Generate(request, {}, [&](int64_t done, int64_t) { cancel = done >= 30; });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->finish_reason, "cancelled");
  EXPECT_TRUE(result->tokens.empty());
  EXPECT_EQ(result->text, "");

  request.cancel = nullptr;
  request.reuse_cache = true;
  const GenerationResult warm = Generate(*engine, request);
  EXPECT_EQ(warm.stats.cached_prompt_tokens, 30);
  ExpectSameOutput(ColdRun(request), warm);
}

TEST(FailedRequest, LeavesTheEngineUsable) {
  auto engine = MakeTinyEngine({.context_tokens = 400});
  GenerationRequest request = TinyRequest(TinyPrompt(20));
  const GenerationResult cold = ColdRun(request);
  request.reuse_cache = true;
  // Nothing may be drawn: that is found out when the prompt is already in the cache.
  GenerationRequest banned = WithDrafter(request, "suffix", 4);
  for (int32_t token = 0; token < engine->tokenizer().vocab_size(); ++token) {
    banned.options.sampling.logit_bias.emplace_back(token, -std::numeric_limits<float>::infinity());
  }
  for (int32_t turn = 0; turn < 2; ++turn) {
    EXPECT_FALSE(engine->Generate(banned).ok());
    ExpectSameOutput(cold, Generate(*engine, WithDrafter(request, "draft", 4)));
  }
}

}  // namespace
}  // namespace tahmin
