#include "tokenizer/pre_tokenizer.h"

#include <chrono>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tahmin {
namespace {

using testing::HasSubstr;
using Pieces = std::vector<std::string>;

Pieces Split(std::string_view name, std::string_view text) {
  const auto pre_tokenizer = PreTokenizer::Create(name);
  EXPECT_TRUE(pre_tokenizer.ok()) << pre_tokenizer.status();
  std::vector<std::string_view> views;
  const absl::Status status = (*pre_tokenizer)->Split(text, views);
  EXPECT_TRUE(status.ok()) << status;
  return Pieces(views.begin(), views.end());
}

#define PARAGRAPH "\xE2\x80\xA9"  // U+2029
#define WOMAN "\xF0\x9F\x91\xA9"
#define JOINER "\xE2\x80\x8D"  // U+200D
#define GIRL "\xF0\x9F\x91\xA7"
#define JOINED_EMOJI WOMAN JOINER GIRL

// The text shapes of field report B36, with the pieces that each expression list makes of them. The
// deepseek lists' "CJK" range starts at U+0800, so it takes U+2029 and the joiner as well.
struct Shapes {
  std::vector<const char*> names;
  Pieces arrow, call, digits, contraction, blanks, paragraph, emoji, control;
};

const Pieces kEachDigit = {"1", "2", "3", "4", "5", "6", "7"};

const Shapes kShapes[] = {
    {{"qwen2", "deepseek-r1-qwen"},
     {"->"},
     {"(x", "):\n"},
     kEachDigit,
     {"don", "'t"},
     {"  \n\n", " ", " x"},
     {"a", PARAGRAPH "b"},
     {JOINED_EMOJI, " x"},
     {"<|", "im", "_start", "|>", "user"}},
    {{"llama-bpe", "llama3", "llama-v3"},
     {"->"},
     {"(x", "):\n"},
     {"123", "456", "7"},
     {"don", "'t"},
     {"  \n\n", " ", " x"},
     {"a", PARAGRAPH "b"},
     {JOINED_EMOJI, " x"},
     {"<|", "im", "_start", "|>", "user"}},
    {{"gpt-2", "gpt2"},
     {"->"},
     {"(", "x", "):", "\n"},
     {"1234567"},
     {"don", "'t"},
     {"  \n\n ", " x"},
     {"a", PARAGRAPH, "b"},
     {JOINED_EMOJI, " x"},
     {"<|", "im", "_", "start", "|>", "user"}},
    {{"smollm", "starcoder", "refact", "command-r"},
     {"->"},
     {"(", "x", "):", "\n"},
     kEachDigit,
     {"don", "'t"},
     {"  \n\n ", " x"},
     {"a", PARAGRAPH, "b"},
     {JOINED_EMOJI, " x"},
     {"<|", "im", "_", "start", "|>", "user"}},
    {{"falcon"},
     {"->"},
     {"(", "x", "):", "\n"},
     {"123", "456", "7"},
     {"don", "'", "t"},
     {"  \n\n ", " x"},
     {"a", PARAGRAPH, "b"},
     {JOINED_EMOJI, " x"},
     {"<|", "im", "_", "start", "|>", "user"}},
    {{"deepseek-llm"},
     {"->"},
     {"(", "x", "):", "\n"},
     {"1234567"},
     {"don", "'", "t"},
     {"  ", "\n", "\n", " ", " x"},
     {"a", PARAGRAPH, "b"},
     {WOMAN, JOINER, GIRL, " x"},
     {"<|", "im", "_", "start", "|>", "user"}},
    {{"deepseek-coder"},
     {"-", ">"},
     {"(", "x", "):", "\n"},
     kEachDigit,
     {"don", "'", "t"},
     {"  ", "\n", "\n", " ", " x"},
     {"a", PARAGRAPH, "b"},
     {WOMAN, JOINER, GIRL, " x"},
     {"<|", "im", "_", "start", "|>", "user"}},
};

TEST(PreTokenizer, B36_PiecesOfEveryNamedPreTokenizer) {
  for (const Shapes& shapes : kShapes) {
    for (const char* name : shapes.names) {
      SCOPED_TRACE(name);
      EXPECT_EQ(Split(name, "->"), shapes.arrow);
      EXPECT_EQ(Split(name, "(x):\n"), shapes.call);
      EXPECT_EQ(Split(name, "1234567"), shapes.digits);
      EXPECT_EQ(Split(name, "don't"), shapes.contraction);
      EXPECT_EQ(Split(name, "  \n\n  x"), shapes.blanks);
      EXPECT_EQ(Split(name, "a" PARAGRAPH "b"), shapes.paragraph);
      EXPECT_EQ(Split(name, JOINED_EMOJI " x"), shapes.emoji);
      EXPECT_EQ(Split(name, "<|im_start|>user"), shapes.control);
      EXPECT_EQ(Split(name, ""), Pieces());
    }
  }
}

TEST(PreTokenizer, B36_UnknownNameIsAnErrorWithTheList) {
  for (const char* name : {"default", "", "qwen3", "QWEN2"}) {
    const auto pre_tokenizer = PreTokenizer::Create(name);
    ASSERT_EQ(pre_tokenizer.status().code(), absl::StatusCode::kInvalidArgument);
    const std::string message(pre_tokenizer.status().message());
    EXPECT_THAT(message, HasSubstr(fmt::format("'{}'", name)));
    EXPECT_THAT(message, HasSubstr("llama-bpe"));
  }
}

TEST(PreTokenizer, ContractionsInCapitalsOnlyWhereTheExpressionSaysSo) {
  EXPECT_EQ(Split("qwen2", "DON'T I'Ll"), (Pieces{"DON", "'T", " I", "'Ll"}));
  EXPECT_EQ(Split("gpt-2", "DON'T"), (Pieces{"DON", "'", "T"}));
}

TEST(PreTokenizer, WhiteSpaceIsUnicodesOwn) {
  // U+180E is not White_Space, though PCRE2's \s takes it; U+3000 is.
  EXPECT_EQ(Split("gpt-2", "x \xE1\xA0\x8E"), (Pieces{"x", " \xE1\xA0\x8E"}));
  EXPECT_EQ(Split("gpt-2", "x \xE3\x80\x80"), (Pieces{"x", " \xE3\x80\x80"}));
  EXPECT_EQ(Split("gpt-2", "x \xE3\x80\x80y"), (Pieces{"x", " ", "\xE3\x80\x80", "y"}));
}

TEST(PreTokenizer, LongSIsALetterLikeAnyOther) {
  EXPECT_EQ(Split("qwen2", "a'\xC5\xBFx"), (Pieces{"a", "'\xC5\xBFx"}));
}

TEST(PreTokenizer, DeepseekLlmKeepsCjkRunsAndTrailingSpace) {
  EXPECT_EQ(Split("deepseek-llm", "ab\xE4\xBD\xA0\xE5\xA5\xBD  "),
            (Pieces{"ab", "\xE4\xBD\xA0\xE5\xA5\xBD", "  "}));
}

TEST(PreTokenizer, BytesThatAreNotUtf8ArePiecesOfTheirOwn) {
  for (const char* name : {"qwen2", "smollm", "falcon", "deepseek-llm"}) {
    EXPECT_EQ(Split(name,
                    "a\xFF\xFE"
                    "b\xC3"),
              (Pieces{"a", "\xFF\xFE", "b", "\xC3"}))
        << name;
  }
}

TEST(PreTokenizer, TenMillionBlanksEndInAllOfThemOrAnError) {
  const std::string blanks(10'000'000, ' ');
  for (const Shapes& shapes : kShapes) {
    const auto pre_tokenizer = PreTokenizer::Create(shapes.names[0]);
    ASSERT_TRUE(pre_tokenizer.ok());
    for (const std::string& text : {blanks, blanks + "x", blanks + "\xE4\xBD\xA0"}) {
      std::vector<std::string_view> pieces;
      const auto start = std::chrono::steady_clock::now();
      const absl::Status status = (*pre_tokenizer)->Split(text, pieces);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      EXPECT_LT(seconds.count(), 30.0) << shapes.names[0];
      if (!status.ok()) {
        EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
        continue;
      }
      size_t num_bytes = 0;
      for (const std::string_view piece : pieces) num_bytes += piece.size();
      EXPECT_EQ(num_bytes, text.size()) << shapes.names[0];
    }
  }
}

TEST(PreTokenizer, OnlyTheLlama3FamilyIgnoresMerges) {
  EXPECT_TRUE((*PreTokenizer::Create("llama-bpe"))->ignore_merges());
  EXPECT_FALSE((*PreTokenizer::Create("qwen2"))->ignore_merges());
}

}  // namespace
}  // namespace tahmin
