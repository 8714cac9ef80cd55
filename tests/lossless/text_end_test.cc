// Every way in which a text ends, at every offset of a block.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lossless/tiny_engine.h"

namespace tahmin {
namespace {

// Text, ids and stream of one run.
struct Streamed {
  GenerationResult result;
  std::string text;             // all deltas
  std::vector<int32_t> tokens;  // of all events
};

Streamed RunStreamed(Engine& engine, const GenerationRequest& request) {
  Streamed streamed;
  auto result = engine.Generate(request, [&](const TokenEvent& event) {
    streamed.text += event.text_delta;
    if (event.token >= 0) streamed.tokens.push_back(event.token);
  });
  EXPECT_TRUE(result.ok()) << result.status();
  if (result.ok()) streamed.result = *std::move(result);
  return streamed;
}

// Plain and every drafter end alike, in result and stream; the stream is the text.
void ExpectSameEnd(Engine& engine, const GenerationRequest& request,
                   const std::vector<int32_t>& whole_output, int32_t draft_max) {
  const Streamed plain = RunStreamed(engine, request);
  EXPECT_EQ(plain.text, plain.result.text);
  std::vector<GenerationRequest> others = {WithReplay(request, whole_output, draft_max),
                                           WithDrafter(request, "draft", draft_max),
                                           WithDrafter(request, "lookup", draft_max)};
  for (const GenerationRequest& other : others) {
    SCOPED_TRACE(other.draft.drafter);
    const Streamed streamed = RunStreamed(engine, other);
    ExpectSameOutput(plain.result, streamed.result);
    EXPECT_EQ(streamed.text, plain.text);
    EXPECT_EQ(streamed.tokens, plain.tokens);
  }
}

GenerationRequest EndlessRequest(uint64_t seed, int32_t max_tokens) {
  GenerationRequest request = TinyRequest(TinyPrompt(10, 4));
  request.options.ignore_end_tokens = true;
  request.options.max_tokens = max_tokens;
  return seed == 0 ? request : WithSeed(request, seed);
}

TEST(TextEnd, EndTokenAtEveryOffsetOfABlockB09) {
  auto engine = MakeTinyEngine({.threads = 2});
  for (uint64_t seed : {0, 11, 12}) {
    const GenerationRequest endless = EndlessRequest(seed, 40);
    const GenerationResult whole = Generate(*engine, endless);
    ASSERT_EQ(whole.tokens.size(), 40u);
    // A block of K = 8 holds offsets 1 to 9, the bonus token included; go over two blocks and more.
    for (size_t place = 0; place < 22; ++place) {
      SCOPED_TRACE("end token at " + std::to_string(place));
      GenerationRequest request = endless;
      request.options.end_tokens = {whole.tokens[place]};
      const auto first = std::find(whole.tokens.begin(), whole.tokens.end(), whole.tokens[place]);
      const std::vector<int32_t> expected(whole.tokens.begin(), first);

      const GenerationResult result = Generate(*engine, WithReplay(request, whole.tokens, 8));
      EXPECT_EQ(result.tokens, expected);
      EXPECT_EQ(result.finish_reason, "stop");
      EXPECT_EQ(result.stats.generated_tokens, static_cast<int64_t>(expected.size()) + 1);
      ExpectSameEnd(*engine, request, whole.tokens, 8);
    }
  }
}

TEST(TextEnd, SeveralEndTokensInOneBlockB09) {
  auto engine = MakeTinyEngine();
  const GenerationRequest endless = EndlessRequest(21, 40);
  const GenerationResult whole = Generate(*engine, endless);
  for (size_t place = 1; place + 3 < 20; ++place) {
    GenerationRequest request = endless;
    request.options.end_tokens = {whole.tokens[place + 3], whole.tokens[place],
                                  whole.tokens[place + 1]};
    ExpectSameEnd(*engine, request, whole.tokens, 7);
  }
}

TEST(TextEnd, EndTokenOfTheVocabularyInsideABlockB38) {
  // End of text and end of turn differ; either may be drawn and either ends the text.
  auto engine = MakeTinyEngine();
  for (int32_t end : {TinyVocabulary::kEnd, TinyVocabulary::kTurnEnd}) {
    int32_t num_ended = 0;
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      GenerationRequest request = WithSeed(TinyRequest(TinyPrompt(10, 4)), seed);
      request.options.sampling.temperature = 1.0f;
      request.options.sampling.top_k = 0;
      request.options.sampling.top_p = 1.0f;
      request.options.sampling.min_p = 0.0f;
      request.options.sampling.logit_bias = {{end, 6.0f}};
      const GenerationResult plain = Generate(*engine, request);
      num_ended += plain.finish_reason == "stop" ? 1 : 0;
      // What lies behind the end token in the replay is a next turn that must never be written.
      std::vector<int32_t> with_more = plain.tokens;
      with_more.push_back(end);
      for (int32_t i = 0; i < 6; ++i) with_more.push_back(TinyVocabulary::kTurnStart);
      const GenerationResult replayed = Generate(*engine, WithReplay(request, with_more, 8));
      ExpectSameOutput(plain, replayed);
      ExpectSameOutput(plain, Generate(*engine, WithDrafter(request, "draft", 5)));
    }
    EXPECT_GT(num_ended, 0);
  }
}

TEST(TextEnd, StopStringsAtEveryOffsetB11) {
  auto engine = MakeTinyEngine({.threads = 2});
  for (uint64_t seed : {0, 31}) {
    const GenerationRequest endless = OnlyLetters(EndlessRequest(seed, 70));
    const GenerationResult whole = Generate(*engine, endless);
    ASSERT_EQ(whole.text.size(), 70u);  // one letter a token
    for (size_t length : {size_t{1}, size_t{3}, size_t{40}}) {
      for (size_t place = 0; place < 20; ++place) {
        SCOPED_TRACE("stop string of " + std::to_string(length) + " at " + std::to_string(place));
        GenerationRequest request = endless;
        const std::string stop = whole.text.substr(place, length);
        request.options.stop = {stop};
        const GenerationResult result = Generate(*engine, WithReplay(request, whole.tokens, 16));
        EXPECT_EQ(result.text, whole.text.substr(0, whole.text.find(stop)));
        EXPECT_EQ(result.tokens.size(), result.text.size());
        EXPECT_EQ(result.finish_reason, "stop");
        ExpectSameEnd(*engine, request, whole.tokens, 16);
      }
    }
  }
}

TEST(TextEnd, OverlappingStopStringsB11) {
  auto engine = MakeTinyEngine();
  const GenerationRequest endless = OnlyLetters(EndlessRequest(41, 40));
  const GenerationResult whole = Generate(*engine, endless);
  for (size_t place = 0; place < 16; ++place) {
    GenerationRequest request = endless;
    request.options.stop = {whole.text.substr(place, 2), whole.text.substr(place, 3)};
    ExpectSameEnd(*engine, request, whole.tokens, 16);
    // A stop string that never comes whole: what it held back is released at the end.
    request.options.stop = {whole.text.substr(place, 5) + "#"};
    ExpectSameEnd(*engine, request, whole.tokens, 16);
  }
}

TEST(TextEnd, LogprobsEndWhereTheTextEndsB11) {
  auto engine = MakeTinyEngine();
  const GenerationRequest endless = OnlyLetters(EndlessRequest(0, 40));
  const GenerationResult whole = Generate(*engine, endless);
  for (size_t place = 1; place < 12; ++place) {
    GenerationRequest request = endless;
    request.options.num_logprobs = 2;
    request.options.stop = {whole.text.substr(place, 3)};
    const GenerationResult result = Generate(*engine, WithReplay(request, whole.tokens, 16));
    EXPECT_EQ(result.logprobs.size(), result.tokens.size());
  }
}

TEST(TextEnd, LengthLimitAtEveryOffsetB23) {
  auto engine = MakeTinyEngine();
  const GenerationResult whole = Generate(*engine, EndlessRequest(0, 40));
  for (int32_t limit = 1; limit <= 20; ++limit) {
    const GenerationRequest request = EndlessRequest(0, limit);
    const GenerationResult result = Generate(*engine, WithReplay(request, whole.tokens, 8));
    EXPECT_EQ(result.tokens,
              std::vector<int32_t>(whole.tokens.begin(), whole.tokens.begin() + limit));
    EXPECT_EQ(result.finish_reason, "length");
    EXPECT_EQ(result.stats.cut, 0);  // the draft was clipped, nothing was computed in vain
    ExpectSameEnd(*engine, request, whole.tokens, 8);
  }
}

TEST(TextEnd, TwoEndsInOneBlockTakeTheFirst) {
  auto engine = MakeTinyEngine();
  const GenerationRequest endless = OnlyLetters(EndlessRequest(51, 30));
  const GenerationResult whole = Generate(*engine, endless);
  for (size_t place = 1; place < 14; ++place) {
    GenerationRequest request = endless;
    request.options.stop = {whole.text.substr(place, 2)};
    request.options.end_tokens = {whole.tokens[place + 1]};
    request.options.max_tokens = static_cast<int32_t>(place) + 2;
    ExpectSameEnd(*engine, request, whole.tokens, 16);
  }
}

}  // namespace
}  // namespace tahmin
