// The first byte picks what is fuzzed. Even: the rest is text for a vocabulary in which every byte
// has a token (byte-level BPE with one of several pre-tokenizers, or SentencePiece), so that the
// text must come back byte for byte. Odd: the rest damages the vocabulary's file at places of its
// choosing before a tokenizer is made of it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "gguf/gguf_file.h"
#include "gguf/gguf_writer.h"
#include "tests/data/tiny_vocabulary.h"
#include "tokenizer/tokenizer.h"

namespace {

using Bytes = std::vector<uint8_t>;

Bytes ByteLevelFile(const std::string& pre) {
  tahmin::GgufWriter writer;
  tahmin::AddTinyVocabulary(writer, pre, 300);
  return writer.ToBytes();
}

// <unk>, <s>, </s>, the bytes, and pieces by falling score ("\xE2\x96\x81" is the space).
Bytes SentencePieceFile() {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    tokens.push_back(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">");
    types.push_back(6);
  }
  for (const char* piece :
       {"\xE2\x96\x81", "he", "t", "in", "\xE2\x96\x81t", "the", "\xE2\x96\x81the",
        "\xE2\x96\x81\xE2\x96\x81", "h", "e", "i", "n", "\n\n", "\n", "\xF0\x9F\x99\x82"}) {
    tokens.push_back(piece);
    types.push_back(1);
  }
  std::vector<float> scores;
  for (size_t i = 0; i < tokens.size(); ++i) scores.push_back(-static_cast<float>(i));
  tahmin::GgufWriter writer;
  writer.AddString("tokenizer.ggml.model", "llama");
  writer.AddStringArray("tokenizer.ggml.tokens", tokens);
  writer.AddInt32Array("tokenizer.ggml.token_type", types);
  writer.AddFloat32Array("tokenizer.ggml.scores", scores);
  writer.AddUint32("tokenizer.ggml.bos_token_id", 1);
  writer.AddUint32("tokenizer.ggml.eos_token_id", 2);
  writer.AddUint32("tokenizer.ggml.unknown_token_id", 0);
  return writer.ToBytes();
}

struct FixedTokenizer {
  explicit FixedTokenizer(Bytes file_bytes) : bytes(std::move(file_bytes)) {
    file = std::move(tahmin::GgufFile::Parse(bytes, "vocabulary")).value();
    tokenizer = std::move(tahmin::Tokenizer::Create(*file)).value();
  }
  Bytes bytes;
  std::unique_ptr<tahmin::GgufFile> file;
  std::unique_ptr<tahmin::Tokenizer> tokenizer;
};

void CheckSentencePiece(const tahmin::Tokenizer& tokenizer, const std::string& text) {
  for (bool parse_special : {false, true}) {
    const auto tokens =
        tokenizer.Tokenize(text, {.add_special = false, .parse_special = parse_special});
    if (!tokens.ok()) continue;
    for (int32_t token : *tokens) TAHMIN_CHECK(token >= 0 && token < tokenizer.vocab_size());
    const std::string back = tokenizer.Detokenize(*tokens, parse_special);
    // U+2581 itself comes back as the space that it spells; behind a special token a space is
    // added.
    const bool is_exact = !parse_special && text.find("\xE2\x96\x81") == std::string::npos;
    if (is_exact) TAHMIN_CHECK(back == text);
  }
}

void CheckByteLevel(const tahmin::Tokenizer& tokenizer, const std::string& text) {
  for (bool parse_special : {false, true}) {
    const auto tokens =
        tokenizer.Tokenize(text, {.add_special = false, .parse_special = parse_special});
    if (!tokens.ok()) continue;
    for (int32_t token : *tokens) TAHMIN_CHECK(token >= 0 && token < tokenizer.vocab_size());
    // With their texts rendered, control tokens come back as what they were parsed from.
    TAHMIN_CHECK(tokenizer.Detokenize(*tokens, parse_special) == text);
  }
}

void CheckDamagedFile(Bytes bytes, const uint8_t* damage, size_t num_bytes) {
  for (size_t i = 0; i + 3 <= num_bytes; i += 3) {
    bytes[(size_t{damage[i]} * 256 + damage[i + 1]) % bytes.size()] = damage[i + 2];
  }
  const auto file = tahmin::GgufFile::Parse(bytes, "damaged");
  if (!file.ok()) return;
  const auto tokenizer = tahmin::Tokenizer::Create(**file);
  if (!tokenizer.ok()) return;
  const auto tokens = (*tokenizer)->Tokenize("the in <|im_end|> </s> \xF0\x9F\x99\x82 12345", {});
  if (tokens.ok()) (void)(*tokenizer)->Detokenize(*tokens, true);
  for (int32_t token = -1; token <= (*tokenizer)->vocab_size(); ++token) {
    (void)(*tokenizer)->TokenBytes(token, true);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t num_bytes) {
  static const FixedTokenizer sentence_piece(SentencePieceFile());
  static const FixedTokenizer byte_level[] = {FixedTokenizer(ByteLevelFile("gpt-2")),
                                              FixedTokenizer(ByteLevelFile("qwen2")),
                                              FixedTokenizer(ByteLevelFile("llama-bpe")),
                                              FixedTokenizer(ByteLevelFile("deepseek-llm")),
                                              FixedTokenizer(ByteLevelFile("deepseek-coder")),
                                              FixedTokenizer(ByteLevelFile("smollm")),
                                              FixedTokenizer(ByteLevelFile("falcon"))};
  constexpr size_t kNumByteLevel = std::size(byte_level);
  if (num_bytes == 0) return 0;
  const size_t choice = bytes[0] / 2 % (kNumByteLevel + 1);
  const bool is_byte_level = choice < kNumByteLevel;
  const FixedTokenizer& chosen = is_byte_level ? byte_level[choice] : sentence_piece;
  if (bytes[0] % 2 == 1) {
    CheckDamagedFile(chosen.bytes, bytes + 1, num_bytes - 1);
    return 0;
  }
  const std::string text(reinterpret_cast<const char*>(bytes + 1), num_bytes - 1);
  if (is_byte_level) {
    CheckByteLevel(*chosen.tokenizer, text);
  } else {
    CheckSentencePiece(*chosen.tokenizer, text);
  }
  return 0;
}
