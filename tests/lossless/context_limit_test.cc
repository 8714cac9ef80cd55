// The context as the limit of prompt, draft and text.
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/lossless/tiny_engine.h"

namespace tahmin {
namespace {

TEST(ContextLimit, DraftIsClippedToTheRoomLeftB23) {
  constexpr int32_t kContext = 64;
  auto engine = MakeTinyEngine({.threads = 2, .context_tokens = kContext});
  GenerationRequest request = TinyRequest(TinyPrompt(56));
  request.options.ignore_end_tokens = true;
  request.options.max_tokens = -1;
  const GenerationResult plain = Generate(*engine, request);
  EXPECT_EQ(plain.tokens.size(), 8u);
  EXPECT_EQ(plain.finish_reason, "length");

  // The replay knows more than fits: 16 tokens are proposed with 8 places left.
  std::vector<int32_t> longer = plain.tokens;
  for (int32_t i = 0; i < 40; ++i) longer.push_back(TinyVocabulary::kFirstByte + i);
  for (int32_t draft_max : {1, 2, 6, 7, 8, 9, 16}) {
    for (const char* drafter : {"draft", "lookup", "junk"}) {
      ExpectSameOutput(plain, Generate(*engine, WithDrafter(request, drafter, draft_max)));
    }
    const GenerationResult replayed = Generate(*engine, WithReplay(request, longer, draft_max));
    ExpectSameOutput(plain, replayed);
    EXPECT_EQ(replayed.stats.cut, 0);
  }
  // The engine is as good as new.
  GenerationRequest next = TinyRequest(TinyPrompt(5, 9));
  auto fresh = MakeTinyEngine({.context_tokens = kContext});
  ExpectSameOutput(Generate(*fresh, next), Generate(*engine, WithDrafter(next, "draft", 4)));
}

TEST(ContextLimit, TreesNearTheEndOfTheContextB23) {
  auto engine = MakeTinyEngine({.context_tokens = 64});
  for (int32_t prompt_tokens : {55, 59, 61, 62, 63}) {
    GenerationRequest request = TinyRequest(TinyPrompt(prompt_tokens));
    request.options.max_tokens = -1;
    request.options.ignore_end_tokens = true;
    const GenerationResult plain = Generate(*engine, request);
    std::vector<int32_t> script;
    for (int32_t step = 0; step < 10; ++step) {  // 4 x 2 bushes, as numbers: see test_drafters.h
      script.push_back(8);
      for (int32_t i = 0; i < 8; ++i) {
        script.push_back(TinyVocabulary::kFirstByte + 8 * step + i);
        script.push_back(i < 4 ? -1 : i - 4);
      }
    }
    GenerationRequest scripted = WithDrafter(request, "script", 8);
    scripted.script_tokens = script;
    ExpectSameOutput(plain, Generate(*engine, scripted));
  }
}

TEST(ContextLimit, PromptOfContextLessOneGivesOneTokenB23) {
  auto engine = MakeTinyEngine({.context_tokens = 64});
  GenerationRequest request = TinyRequest(TinyPrompt(63));
  request.options.ignore_end_tokens = true;
  for (int32_t max_tokens : {-1, 1, 1000000}) {
    request.options.max_tokens = max_tokens;
    for (const char* drafter : {"none", "draft", "lookup", "junk"}) {
      const GenerationResult result = Generate(*engine, WithDrafter(request, drafter, 8));
      EXPECT_EQ(result.tokens.size(), 1u);
      EXPECT_EQ(result.finish_reason, "length");
      EXPECT_EQ(result.stats.steps, 0);
    }
  }
}

TEST(ContextLimit, PromptThatDoesNotFitIsRefusedWithBothNumbersB23) {
  auto engine = MakeTinyEngine({.context_tokens = 64});
  for (int32_t length : {64, 65, 500}) {
    const auto result = engine->Generate(TinyRequest(TinyPrompt(length)));
    ASSERT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    const std::string message(result.status().message());
    EXPECT_NE(message.find(std::to_string(length)), std::string::npos) << message;
    EXPECT_NE(message.find("64"), std::string::npos) << message;
  }
  EXPECT_EQ(Generate(*engine, TinyRequest(TinyPrompt(10))).finish_reason, "length");
}

TEST(ContextLimit, OddLengthLimitsB23) {
  auto engine = MakeTinyEngine({.context_tokens = 128});
  GenerationRequest request = TinyRequest(TinyPrompt(10));
  request.options.ignore_end_tokens = true;
  for (int32_t max_tokens : {-1, 1000000}) {
    request.options.max_tokens = max_tokens;
    for (const char* drafter : {"none", "draft", "lookup"}) {
      const GenerationResult result = Generate(*engine, WithDrafter(request, drafter, 7));
      EXPECT_EQ(result.tokens.size(), 118u);
      EXPECT_EQ(result.finish_reason, "length");
    }
  }
  for (int32_t max_tokens : {0, -2}) {
    request.options.max_tokens = max_tokens;
    EXPECT_EQ(engine->Generate(request).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(ContextLimit, LongPlainTextB24) {
  // A copy-heavy prompt and a text far longer than the draft's context.
  auto engine = MakeTinyEngine({.context_tokens = 500, .draft_context_tokens = 64});
  GenerationRequest request = TinyRequest(TinyPrompt(40));
  request.options.max_tokens = 400;
  request.options.ignore_end_tokens = true;
  const GenerationResult plain = Generate(*engine, request);
  ASSERT_EQ(plain.tokens.size(), 400u);
  const GenerationResult drafted = Generate(*engine, WithDrafter(request, "draft", 4));
  ExpectSameOutput(plain, drafted);
  EXPECT_GT(drafted.stats.drafted, 0);
  // From 65 tokens on every step writes one token; a block may reach 4 beyond 65, and the step for
  // the last token drafts nothing in any case.
  EXPECT_GE(drafted.stats.draft_context_full_steps, 439 - 65 - 4);
  EXPECT_LE(drafted.stats.draft_context_full_steps, 439 - 65);
  const GenerationResult looked_up = Generate(*engine, WithDrafter(request, "lookup", 8));
  ExpectSameOutput(plain, looked_up);
  EXPECT_EQ(looked_up.stats.draft_context_full_steps, 0) << "lookup has no context of its own";

  auto roomy = MakeTinyEngine({.context_tokens = 500});
  const GenerationResult all_drafted = Generate(*roomy, WithDrafter(request, "draft", 4));
  ExpectSameOutput(plain, all_drafted);
  EXPECT_EQ(all_drafted.stats.draft_context_full_steps, 0);
}

}  // namespace
}  // namespace tahmin
