#include <algorithm>
#include <chrono>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tokenizer/vocabulary_fixture.h"

namespace tahmin {
namespace {

using testing::HasSubstr;
using TokenIds = std::vector<int32_t>;

#define MARK "\xE2\x96\x81"  // U+2581

// Ids: 0 <unk>, 1 <s>, 2 </s>, 3 to 258 the bytes, then the pieces below.
constexpr int32_t kFirstByte = 3;

struct LlamaLike {
  LlamaLike() {
    vocabulary.model = "llama";
    vocabulary.pre = std::nullopt;
    vocabulary.unknown = vocabulary.Add("<unk>", 2);
    vocabulary.begin = vocabulary.Add("<s>", 3);
    vocabulary.end = vocabulary.Add("</s>", 3);
    for (int byte = 0; byte < 256; ++byte) vocabulary.Add(fmt::format("<0x{:02X}>", byte), 6);
    int32_t rank = 0;
    // As SentencePiece writes them: merges by falling score, then single characters.
    for (const char* text :
         {MARK "a", "bc", "ab", MARK "ab", MARK MARK, "abc", MARK, "a", "b", "c"}) {
      vocabulary.Add(text, 1, static_cast<float>(-(++rank)));
    }
  }
  int32_t Id(const std::string& text) const {
    const auto& tokens = vocabulary.tokens;
    return static_cast<int32_t>(std::find(tokens.begin(), tokens.end(), text) - tokens.begin());
  }
  TestVocabulary vocabulary;
};

TEST(SentencePiece, JoinsByHighestScoreAndAddsTheSpace) {
  const LlamaLike llama;
  const auto tokenizer = llama.vocabulary.Create();
  // MARK a b c: "MARK a" (-1) first, then "bc" (-2); "MARK ab" is out of reach by then.
  EXPECT_EQ(Ids(*tokenizer, "abc"), (TokenIds{1, llama.Id(MARK "a"), llama.Id("bc")}));
  EXPECT_EQ(Ids(*tokenizer, "ab"), (TokenIds{1, llama.Id(MARK "ab")}));
  EXPECT_EQ(Ids(*tokenizer, "b  a"),
            (TokenIds{1, llama.Id(MARK), llama.Id("b"), llama.Id(MARK), llama.Id(MARK "a")}));
  EXPECT_EQ(Ids(*tokenizer, ""), (TokenIds{1}));
}

TEST(SentencePiece, TiesGoToTheLeft) {
  LlamaLike llama;
  llama.vocabulary.Add("cc", 1, -0.5f);
  llama.vocabulary.add_space_prefix = false;
  EXPECT_EQ(Ids(*llama.vocabulary.Create(), "ccc", {.add_special = false}),
            (TokenIds{llama.Id("cc"), llama.Id("c")}));
}

TEST(SentencePiece, WithoutTheSpacePrefix) {
  LlamaLike llama;
  llama.vocabulary.add_space_prefix = false;
  llama.vocabulary.add_begin = false;
  const auto tokenizer = llama.vocabulary.Create();
  EXPECT_EQ(Ids(*tokenizer, "bc"), (TokenIds{llama.Id("bc")}));
  EXPECT_EQ(tokenizer->Detokenize(Ids(*tokenizer, " bc"), false), " bc");
}

TEST(SentencePiece, CharactersWithoutATokenBecomeTheirBytes) {
  const LlamaLike llama;
  const auto tokenizer = llama.vocabulary.Create();
  EXPECT_EQ(Ids(*tokenizer, "a\xC3\xA9", {.add_special = false}),
            (TokenIds{llama.Id(MARK "a"), kFirstByte + 0xC3, kFirstByte + 0xA9}));
  EXPECT_EQ(tokenizer->TokenBytes(kFirstByte + 0xC3, false), "\xC3");
}

TEST(SentencePiece, ByteAndControlTextsAreNotMadeByMerging) {
  const LlamaLike llama;
  const auto tokenizer = llama.vocabulary.Create();
  const TokenIds ids = Ids(*tokenizer, "<s><0x41>", {.add_special = false, .parse_special = false});
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 1), 0);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), kFirstByte + 0x41), 0);
  EXPECT_EQ(tokenizer->Detokenize(ids, false), "<s><0x41>");
  EXPECT_EQ(Ids(*tokenizer, "</s>"), (TokenIds{1, 2}));
}

TEST(SentencePiece, TheSpaceIsAddedBehindSpecialTokensToo) {
  const LlamaLike llama;
  EXPECT_EQ(Ids(*llama.vocabulary.Create(), "a</s>a", {.add_special = false}),
            (TokenIds{llama.Id(MARK "a"), 2, llama.Id(MARK "a")}));
}

TEST(SentencePiece, DetokenizeDropsTheAddedSpaceOnly) {
  const LlamaLike llama;
  const auto tokenizer = llama.vocabulary.Create();
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) text.push_back("abc \n\xFF"[random() % 6]);
    EXPECT_EQ(tokenizer->Detokenize(Ids(*tokenizer, text), false), text);
  }
  EXPECT_EQ(tokenizer->TokenBytes(llama.Id(MARK "ab"), false), " ab");
}

TEST(SentencePiece, WithoutByteTokensTheUnknownTokenStandsIn) {
  TestVocabulary vocabulary;
  vocabulary.model = "llama";
  vocabulary.pre = std::nullopt;
  vocabulary.add_space_prefix = false;
  vocabulary.Add("a", 1, -1);
  EXPECT_EQ(vocabulary.Create()->Tokenize("a?", {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  vocabulary.unknown = vocabulary.Add("<unk>", 2);
  EXPECT_EQ(Ids(*vocabulary.Create(),
                "a\xC3\xA9"
                "a"),
            (TokenIds{0, 1, 0}));
}

TEST(SentencePiece, OddTablesAreErrors) {
  LlamaLike missing, nan;
  missing.vocabulary.scores.pop_back();
  EXPECT_THAT(std::string(missing.vocabulary.TryCreate().status().message()), HasSubstr("scores"));
  nan.vocabulary.scores[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(std::string(nan.vocabulary.TryCreate().status().message()), HasSubstr("scores[5]"));
  LlamaLike overridden;
  EXPECT_EQ(overridden.vocabulary.TryCreate("qwen2").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(SentencePiece, AMegabyteWithoutABreakIsNotQuadratic) {
  const LlamaLike llama;
  const auto tokenizer = llama.vocabulary.Create();
  std::string text;
  while (text.size() < (1 << 20)) text += "abc";
  const auto start = std::chrono::steady_clock::now();
  const TokenIds ids = Ids(*tokenizer, text);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(tokenizer->Detokenize(ids, false), text);
  EXPECT_LT(seconds.count(), 20.0);
}

}  // namespace
}  // namespace tahmin
