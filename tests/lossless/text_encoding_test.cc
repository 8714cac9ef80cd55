// Characters that are split over tokens and blocks.
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "stream/text_stream.h"
#include "tests/lossless/tiny_engine.h"

namespace tahmin {
namespace {

// Makes any model write `bytes` (all different) over and over: each has a larger bias than the
// next, and the presence penalty takes the last bytes.size() - 1 tokens out of the running.
GenerationRequest CycleOf(const std::string& bytes, int32_t max_tokens) {
  GenerationRequest request = TinyRequest(TinyPrompt(6));
  request.options.max_tokens = max_tokens;
  float bias = 100.0f * static_cast<float>(bytes.size());
  request.options.sampling.presence_penalty = bias + 50.0f;
  request.options.sampling.penalty_window = static_cast<int32_t>(bytes.size()) - 1;
  for (char byte : bytes) {
    request.options.sampling.logit_bias.emplace_back(
        TinyVocabulary::kFirstByte + static_cast<uint8_t>(byte), bias);
    bias -= 100.0f;
  }
  return request;
}

// Every delta is whole characters and the deltas join to the text; returns the text.
std::string StreamedText(Engine& engine, const GenerationRequest& request) {
  std::string joined;
  auto result = engine.Generate(request, [&](const TokenEvent& event) {
    EXPECT_TRUE(IsValidUtf8(event.text_delta));
    joined += event.text_delta;
  });
  EXPECT_TRUE(result.ok()) << result.status();
  if (result.ok()) {
    EXPECT_EQ(joined, result->text);
  }
  return joined;
}

TEST(TextEncoding, CharactersSplitInsideAndBetweenBlocksB37) {
  auto engine = MakeTinyEngine();
  const std::string characters[] = {"\xF0\x9F\x98\x80", "\xE4\xB8\xAD", "\xC3\xA9"};
  for (const std::string& character : characters) {
    for (int32_t length = 4; length <= 16; ++length) {  // cuts a character at every place
      const GenerationRequest request = CycleOf(character, length);
      std::string expected;
      const int32_t width = static_cast<int32_t>(character.size());
      for (int32_t i = 0; i < length / width; ++i) expected += character;
      if (length % width != 0) expected += "\xEF\xBF\xBD";
      const GenerationResult plain = Generate(*engine, request);
      EXPECT_EQ(plain.text, expected);
      for (int32_t draft_max : {1, 2, 3, 5, 8}) {
        EXPECT_EQ(StreamedText(*engine, WithReplay(request, plain.tokens, draft_max)), expected);
        EXPECT_EQ(StreamedText(*engine, WithDrafter(request, "draft", draft_max)), expected);
      }
    }
  }
}

TEST(TextEncoding, StopStringOfSplitCharactersB37) {
  auto engine = MakeTinyEngine();
  GenerationRequest request = CycleOf("\xF0\x9F\x98\x80", 16);
  const GenerationResult whole = Generate(*engine, request);
  request.options.stop = {"\xF0\x9F\x98\x80\xF0\x9F\x98\x80\xF0\x9F\x98\x80"};
  for (int32_t draft_max : {1, 3, 4, 7, 15}) {
    const GenerationResult result = Generate(*engine, WithReplay(request, whole.tokens, draft_max));
    EXPECT_EQ(result.text, "");
    EXPECT_EQ(result.tokens.size(), 0u);
    EXPECT_EQ(result.finish_reason, "stop");
  }
}

TEST(TextEncoding, BytesThatNeverFormACharacterB37) {
  auto engine = MakeTinyEngine();
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    GenerationRequest request = WithSeed(TinyRequest(TinyPrompt(8)), seed);
    request.options.sampling.temperature = 2.0f;
    request.options.sampling.top_k = 0;
    request.options.sampling.top_p = 1.0f;
    request.options.sampling.min_p = 0.0f;
    request.options.max_tokens = 200;
    request.options.ignore_end_tokens = true;
    const GenerationResult plain = Generate(*engine, request);
    ASSERT_EQ(plain.tokens.size(), 200u);
    EXPECT_EQ(StreamedText(*engine, request), plain.text);
    EXPECT_EQ(StreamedText(*engine, WithReplay(request, plain.tokens, 7)), plain.text);
    EXPECT_EQ(StreamedText(*engine, WithDrafter(request, "draft", 4)), plain.text);
  }
}

}  // namespace
}  // namespace tahmin
