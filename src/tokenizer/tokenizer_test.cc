#include "tokenizer/tokenizer.h"

#include <chrono>
#include <map>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tokenizer/vocabulary_fixture.h"

namespace tahmin {
namespace {

using testing::HasSubstr;
using TokenIds = std::vector<int32_t>;

// Ids 256 and up are the merges' results, in order.
const std::vector<std::string> kMerges = {
    "o n",    // 256
    "d on",   // 257
    "' t",    // 258
    "Ġ x",    // 259: space + x
    "Ċ Ċ",    // 260: two line feeds
    "Ġ Ġ",    // 261
    "- >",    // 262
    ") :",    // 263
    "): Ċ",   // 264
    "1 2",    // 265
    "u s",    // 266
    "e r",    // 267
    "us er",  // 268
    "( x",    // 269
};

struct QwenLike {
  QwenLike() {
    vocabulary = ByteVocabulary(kMerges);
    turn_start = vocabulary.Add("<|im_start|>", 3);
    turn_end = vocabulary.Add("<|im_end|>", 3);
    tool_call = vocabulary.Add("<tool_call>", 4);
    vocabulary.end = turn_end;
  }
  TestVocabulary vocabulary;
  int32_t turn_start, turn_end, tool_call;
};

TEST(ByteLevelBpe, B36_TextShapes) {
  const QwenLike qwen;
  const auto tokenizer = qwen.vocabulary.Create();
  EXPECT_EQ(Ids(*tokenizer, "->"), (TokenIds{262}));
  EXPECT_EQ(Ids(*tokenizer, "(x):\n"), (TokenIds{269, 264}));
  EXPECT_EQ(Ids(*tokenizer, "1234567"), (TokenIds{'1', '2', '3', '4', '5', '6', '7'}));
  EXPECT_EQ(Ids(*tokenizer, "don't"), (TokenIds{257, 258}));
  EXPECT_EQ(Ids(*tokenizer, "  \n\n  x"), (TokenIds{261, 260, ' ', 259}));
  EXPECT_EQ(Ids(*tokenizer, "\xE2\x80\xA9"), (TokenIds{0xE2, 0x80, 0xA9}));
  EXPECT_EQ(Ids(*tokenizer, "\xF0\x9F\x91\xA9\xE2\x80\x8D"),
            (TokenIds{0xF0, 0x9F, 0x91, 0xA9, 0xE2, 0x80, 0x8D}));
  EXPECT_EQ(Ids(*tokenizer, "<|im_start|>user"), (TokenIds{qwen.turn_start, 268}));
  EXPECT_EQ(Ids(*tokenizer, ""), TokenIds());
}

TEST(ByteLevelBpe, B36_ThePreTokenizerDecidesWhatMayMerge) {
  QwenLike qwen;
  qwen.vocabulary.pre = "gpt-2";
  EXPECT_EQ(Ids(*qwen.vocabulary.Create(), "1234567"), (TokenIds{265, '3', '4', '5', '6', '7'}));
  EXPECT_EQ(Ids(*qwen.vocabulary.Create(), "(x):\n"), (TokenIds{'(', 'x', 263, '\n'}));
}

TEST(ByteLevelBpe, ControlTokensOnlyWhereParsedUserDefinedAlways) {
  const QwenLike qwen;
  const auto tokenizer = qwen.vocabulary.Create();
  const TokenizeOptions plain{.add_special = true, .parse_special = false};
  const TokenIds ids = Ids(*tokenizer, "<|im_end|><tool_call>", plain);
  EXPECT_EQ(ids.back(), qwen.tool_call);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), qwen.turn_end), 0);
  EXPECT_EQ(tokenizer->Detokenize(ids, false), "<|im_end|><tool_call>");
  EXPECT_EQ(Ids(*tokenizer, "<|im_end|><tool_call>"), (TokenIds{qwen.turn_end, qwen.tool_call}));
}

TEST(ByteLevelBpe, ControlTextIsRenderedOnRequest) {
  const QwenLike qwen;
  const auto tokenizer = qwen.vocabulary.Create();
  EXPECT_EQ(tokenizer->TokenBytes(qwen.turn_end, false), "");
  EXPECT_EQ(tokenizer->TokenBytes(qwen.turn_end, true), "<|im_end|>");
  EXPECT_EQ(tokenizer->TokenBytes(259, false), " x");
  EXPECT_EQ(tokenizer->TokenText(259), "Ġx");
  EXPECT_EQ(tokenizer->TokenBytes(0xFF, false), "\xFF");
  EXPECT_EQ(tokenizer->TokenBytes(-1, true), "");
  EXPECT_EQ(tokenizer->TokenBytes(1 << 30, true), "");
  EXPECT_TRUE(tokenizer->IsControl(qwen.turn_end));
  EXPECT_FALSE(tokenizer->IsControl(qwen.tool_call));
  EXPECT_FALSE(tokenizer->IsControl(-7));
}

TEST(ByteLevelBpe, BeginAndEndOnlyWhereTheMetadataSaysSo) {
  QwenLike qwen;
  qwen.vocabulary.begin = qwen.turn_start;
  EXPECT_EQ(Ids(*qwen.vocabulary.Create(), "x"), (TokenIds{'x'}));
  qwen.vocabulary.add_begin = true;
  qwen.vocabulary.add_end = true;
  const auto tokenizer = qwen.vocabulary.Create();
  EXPECT_EQ(Ids(*tokenizer, "x"), (TokenIds{qwen.turn_start, 'x', qwen.turn_end}));
  EXPECT_EQ(Ids(*tokenizer, "x", {.add_special = false}), (TokenIds{'x'}));
}

TEST(ByteLevelBpe, Llama3BeginsTextsUnlessTheFileSaysNo) {
  QwenLike llama;
  llama.vocabulary.pre = "llama-bpe";
  llama.vocabulary.begin = llama.turn_start;
  EXPECT_EQ(Ids(*llama.vocabulary.Create(), "x"), (TokenIds{llama.turn_start, 'x'}));
  llama.vocabulary.add_begin = false;
  EXPECT_EQ(Ids(*llama.vocabulary.Create(), "x"), (TokenIds{'x'}));
}

TEST(ByteLevelBpe, Llama3TakesAWholePieceThatIsAToken) {
  TestVocabulary vocabulary = ByteVocabulary({"a b"});
  const int32_t whole = vocabulary.Add("abc", 1);  // no merge makes it
  EXPECT_EQ(Ids(*vocabulary.Create(), "abc"), (TokenIds{256, 'c'}));
  vocabulary.pre = "llama-bpe";
  EXPECT_EQ(Ids(*vocabulary.Create(), "abc"), (TokenIds{whole}));
}

// The definition, word for word: the pair of lowest rank, leftmost among equals, until there is
// none.
TokenIds NaiveMerge(const std::string& piece, const std::vector<std::string>& merges) {
  std::vector<std::string> parts;
  for (const char c : piece) parts.emplace_back(1, c);
  std::map<std::string, int32_t> ranks;
  for (size_t rank = 0; rank < merges.size(); ++rank) ranks[merges[rank]] = static_cast<int>(rank);
  while (true) {
    int32_t best_rank = INT32_MAX;
    size_t best = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto rank = ranks.find(parts[i] + " " + parts[i + 1]);
      if (rank == ranks.end() || rank->second >= best_rank) continue;
      best_rank = rank->second;
      best = i;
    }
    if (best_rank == INT32_MAX) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  TokenIds ids;
  for (const std::string& part : parts) {
    int32_t id = static_cast<uint8_t>(part[0]);
    for (size_t rank = 0; rank < merges.size() && part.size() > 1; ++rank) {
      const size_t space = merges[rank].find(' ');
      const std::string made = merges[rank].substr(0, space) + merges[rank].substr(space + 1);
      if (made == part) id = 256 + static_cast<int32_t>(rank);
      if (made == part) break;
    }
    ids.push_back(id);
  }
  return ids;
}

TEST(ByteLevelBpe, EqualsTheDefinitionOnRandomWords) {
  const std::vector<std::string> merges = {"a a",   "b a",  "aa b",  "a b",    "c c",
                                           "aa aa", "ba b", "cc cc", "aab ba", "c ab"};
  const auto tokenizer = ByteVocabulary(merges).Create();
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    std::string word;
    const size_t length = 1 + random() % 70;
    for (size_t i = 0; i < length; ++i) word.push_back("abc"[random() % 3]);
    ASSERT_EQ(Ids(*tokenizer, word), NaiveMerge(word, merges)) << word;
  }
}

TEST(ByteLevelBpe, AMegabyteOfLettersWithoutABreakIsNotQuadratic) {
  const auto tokenizer = ByteVocabulary({"a a", "aa aa", "aaaa aaaa"}).Create();
  const std::string text(1 << 20, 'a');
  const auto start = std::chrono::steady_clock::now();
  const TokenIds ids = Ids(*tokenizer, text);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(ids, TokenIds((1 << 20) / 8, 258));
  EXPECT_LT(seconds.count(), 20.0);
}

TEST(ByteLevelBpe, AnyBytesComeBackAsTheyWere) {
  const QwenLike qwen;
  const auto tokenizer = qwen.vocabulary.Create();
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::string bytes;
    for (int i = 0; i < 60; ++i) bytes.push_back(static_cast<char>(random()));
    EXPECT_EQ(tokenizer->Detokenize(Ids(*tokenizer, bytes), true), bytes);
  }
}

TEST(ByteLevelBpe, AByteWithoutATokenIsUnknownOrAnError) {
  TestVocabulary vocabulary;
  vocabulary.Add("a", 1);
  EXPECT_EQ(Ids(*vocabulary.Create(), "aa"), (TokenIds{0, 0}));
  const auto ids = vocabulary.Create()->Tokenize("ab", {});
  EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(ids.status().message()), HasSubstr("0x62"));
  vocabulary.unknown = vocabulary.Add("<unk>", 2);
  EXPECT_EQ(Ids(*vocabulary.Create(), "ab"), (TokenIds{0, 1}));
}

TEST(TokenizerCreate, B36_MissingOrUnknownPreTokenizerIsAnErrorUnlessOverridden) {
  QwenLike qwen;
  qwen.vocabulary.pre = std::nullopt;
  EXPECT_EQ(qwen.vocabulary.TryCreate().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(qwen.vocabulary.TryCreate("qwen2").ok());
  qwen.vocabulary.pre = "martian";
  const absl::Status unknown = qwen.vocabulary.TryCreate().status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("martian"));
  EXPECT_TRUE(qwen.vocabulary.TryCreate("gpt-2").ok());
}

TEST(TokenizerCreate, UnknownModelIsNamed) {
  QwenLike qwen;
  qwen.vocabulary.model = "bert";
  const absl::Status status = qwen.vocabulary.TryCreate().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'bert'"));
}

TEST(TokenizerCreate, OddTablesAreErrors) {
  const auto expect_error = [](const TestVocabulary& vocabulary, const std::string& word) {
    const absl::Status status = vocabulary.TryCreate().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << word;
    EXPECT_THAT(std::string(status.message()), HasSubstr(word));
  };
  QwenLike odd_types, bad_type, no_space, unknown_part, bad_id, no_begin, long_special;
  odd_types.vocabulary.types.pop_back();
  expect_error(odd_types.vocabulary, "token_type");
  bad_type.vocabulary.types[3] = 9;
  expect_error(bad_type.vocabulary, "token_type");
  no_space.vocabulary.merges.push_back("ab");
  expect_error(no_space.vocabulary, "merges[14]");
  unknown_part.vocabulary.merges.push_back("q zz");
  expect_error(unknown_part.vocabulary, "q zz");
  bad_id.vocabulary.end = 100000;
  expect_error(bad_id.vocabulary, "eos_token_id");
  no_begin.vocabulary.add_begin = true;
  expect_error(no_begin.vocabulary, "add_bos_token");
  long_special.vocabulary.Add(std::string(600, '<'), 3);
  expect_error(long_special.vocabulary, "special token");
}

TEST(TokenizerCreate, EmptyMergeAndDuplicateTokenDoNoHarm) {
  QwenLike qwen;
  const int32_t duplicate = qwen.vocabulary.Add("don", 1);
  qwen.vocabulary.merges.push_back("d on");
  const auto tokenizer = qwen.vocabulary.Create();
  EXPECT_EQ(Ids(*tokenizer, "don"), (TokenIds{257}));
  EXPECT_EQ(tokenizer->TokenBytes(duplicate, false), "don");
  qwen.vocabulary.merges.push_back("");
  EXPECT_FALSE(qwen.vocabulary.TryCreate().ok());
}

TEST(SpecialTokens, B38_EveryKnownEndStopsGeneration) {
  TestVocabulary vocabulary = ByteVocabulary({});
  const uint32_t text_end = vocabulary.Add("<|endoftext|>", 3);
  const uint32_t turn_end = vocabulary.Add("<|im_end|>", 3);
  const uint32_t other = vocabulary.Add("<stop>", 3);
  vocabulary.Add("<|eot_id|>", 1);  // ordinary text here: ends nothing
  vocabulary.end = text_end;
  vocabulary.end_of_turn = other;
  EXPECT_EQ(vocabulary.Create()->special_tokens().end_of_generation,
            (TokenIds{static_cast<int32_t>(text_end), static_cast<int32_t>(turn_end),
                      static_cast<int32_t>(other)}));
}

TEST(CheckSameVocabulary, B35_EqualIsAllowed) {
  const QwenLike a, b;
  EXPECT_TRUE(CheckSameVocabulary(*a.vocabulary.Create(), *b.vocabulary.Create()).ok());
}

TEST(CheckSameVocabulary, B35_PaddedTailIsAllowed) {
  QwenLike target, draft;
  for (int i = 0; i < 5; ++i) target.vocabulary.Add(fmt::format("[PAD{}]", i), 5);
  draft.vocabulary.Add("<unused>", 5);
  const auto a = target.vocabulary.Create(), b = draft.vocabulary.Create();
  EXPECT_TRUE(CheckSameVocabulary(*a, *b).ok());
  EXPECT_TRUE(CheckSameVocabulary(*b, *a).ok());
  EXPECT_TRUE(a->IsPadding(a->vocab_size() - 1));
}

TEST(CheckSameVocabulary, B35_ARealTokenBehindTheCommonPartIsRefused) {
  QwenLike target, draft;
  draft.vocabulary.Add("extra", 1);
  const absl::Status status =
      CheckSameVocabulary(*target.vocabulary.Create(), *draft.vocabulary.Create());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'extra'"));
}

TEST(CheckSameVocabulary, B35_OneDifferingTokenIsNamedWithBothTexts) {
  QwenLike target, draft;
  draft.vocabulary.tokens[139] = "odd";
  const absl::Status status =
      CheckSameVocabulary(*target.vocabulary.Create(), *draft.vocabulary.Create());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("token 139 is '" + target.vocabulary.tokens[139] + "'"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("'odd'"));
}

TEST(CheckSameVocabulary, B35_ADifferingTypeIsRefused) {
  QwenLike target, draft;
  draft.vocabulary.types[static_cast<size_t>(draft.tool_call)] = 3;
  EXPECT_EQ(CheckSameVocabulary(*target.vocabulary.Create(), *draft.vocabulary.Create()).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(CheckSameVocabulary, B35_DifferingBeginOrEndIdIsRefused) {
  QwenLike target, begin, end;
  begin.vocabulary.begin = begin.turn_start;
  end.vocabulary.end = end.turn_start;
  for (const auto& [draft, word] : {std::pair(&begin, "begin"), std::pair(&end, "end")}) {
    const absl::Status status =
        CheckSameVocabulary(*target.vocabulary.Create(), *draft->vocabulary.Create());
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr(word));
  }
}

TEST(CheckSameVocabulary, B35_AnotherFamilyIsRefusedAtItsFirstToken) {
  const QwenLike target;
  TestVocabulary llama;
  llama.model = "llama";
  llama.Add("<unk>", 2);
  const absl::Status status = CheckSameVocabulary(*target.vocabulary.Create(), *llama.Create());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("token 0 "));
}

TEST(Tokenizer, FingerprintIsStable) {
  const QwenLike qwen;
  EXPECT_EQ(qwen.vocabulary.Create()->Fingerprint(), QwenLike().vocabulary.Create()->Fingerprint());
  // Stores on disk are marked with it: a change of this number makes them useless.
  EXPECT_EQ(qwen.vocabulary.Create()->Fingerprint(), 17389581872342294634u);
}

TEST(Tokenizer, FingerprintTellsVocabulariesApart) {
  std::map<uint64_t, std::string> seen;
  const auto is_new = [&seen](const TestVocabulary& vocabulary, const char* what) {
    return seen.emplace(vocabulary.Create()->Fingerprint(), what).second;
  };
  QwenLike qwen;
  EXPECT_TRUE(is_new(qwen.vocabulary, "as it is"));
  QwenLike other_pre;
  other_pre.vocabulary.pre = "gpt-2";
  EXPECT_TRUE(is_new(other_pre.vocabulary, "another pre-tokenizer"));
  QwenLike other_text;
  other_text.vocabulary.tokens[other_text.tool_call] = "<tool_cell>";
  EXPECT_TRUE(is_new(other_text.vocabulary, "another text"));
  QwenLike other_type;
  other_type.vocabulary.types[other_type.tool_call] = 3;
  EXPECT_TRUE(is_new(other_type.vocabulary, "another type"));
  QwenLike other_merges;
  std::swap(other_merges.vocabulary.merges[0], other_merges.vocabulary.merges[1]);
  EXPECT_TRUE(is_new(other_merges.vocabulary, "another order of merges"));
  QwenLike longer;
  longer.vocabulary.Add("<more>", 3);
  EXPECT_TRUE(is_new(longer.vocabulary, "one token more"));
  QwenLike exchanged;
  std::swap(exchanged.vocabulary.tokens[exchanged.turn_start],
            exchanged.vocabulary.tokens[exchanged.turn_end]);
  EXPECT_TRUE(is_new(exchanged.vocabulary, "two tokens exchanged"));
  EXPECT_EQ(seen.size(), 7u);
}

TEST(Tokenizer, FingerprintLeavesPaddingOut) {
  const QwenLike qwen;
  QwenLike padded;
  padded.vocabulary.Add("[PAD273]", 5);
  padded.vocabulary.Add("[PAD274]", 5);
  ASSERT_TRUE(padded.vocabulary.Create()->IsPadding(padded.tool_call + 1));
  EXPECT_EQ(padded.vocabulary.Create()->Fingerprint(), qwen.vocabulary.Create()->Fingerprint());
}

TEST(Tokenizer, FingerprintFollowsAnOverriddenPreTokenizer) {
  const QwenLike qwen;
  QwenLike other_pre;
  other_pre.vocabulary.pre = "gpt-2";
  const auto overridden = qwen.vocabulary.TryCreate("gpt-2");
  ASSERT_TRUE(overridden.ok()) << overridden.status();
  EXPECT_EQ((*overridden)->Fingerprint(), other_pre.vocabulary.Create()->Fingerprint());
}

}  // namespace
}  // namespace tahmin
