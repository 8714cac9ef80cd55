// The first byte picks what is fuzzed. Even: the rest is text for the vocabulary of the tiny
// models, which is byte-level, so that without special tokens the text must come back byte for
// byte. Odd: the rest damages the vocabulary's file at places of its choosing before a tokenizer is
// made of it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "gguf/gguf_file.h"
#include "gguf/gguf_writer.h"
#include "tests/data/tiny_vocabulary.h"
#include "tokenizer/tokenizer.h"

namespace {

std::vector<uint8_t> VocabularyFile(const std::string& pre) {
  tahmin::GgufWriter writer;
  tahmin::AddTinyVocabulary(writer, pre, 300);
  return writer.ToBytes();
}

struct FixedTokenizer {
  explicit FixedTokenizer(const std::string& pre) : bytes(VocabularyFile(pre)) {
    file = std::move(tahmin::GgufFile::Parse(bytes, "vocabulary")).value();
    tokenizer = std::move(tahmin::Tokenizer::Create(*file)).value();
  }
  std::vector<uint8_t> bytes;
  std::unique_ptr<tahmin::GgufFile> file;
  std::unique_ptr<tahmin::Tokenizer> tokenizer;
};

void CheckText(const tahmin::Tokenizer& tokenizer, const std::string& text) {
  for (bool parse_special : {false, true}) {
    const auto tokens =
        tokenizer.Tokenize(text, {.add_special = false, .parse_special = parse_special});
    if (!tokens.ok()) continue;
    for (int32_t token : *tokens) TAHMIN_CHECK(token >= 0 && token < tokenizer.vocab_size());
    // With their texts rendered, control tokens come back as what they were parsed from.
    TAHMIN_CHECK(tokenizer.Detokenize(*tokens, parse_special) == text);
  }
}

void CheckDamagedFile(const uint8_t* damage, size_t num_bytes) {
  static const std::vector<uint8_t> whole = VocabularyFile("qwen2");
  std::vector<uint8_t> bytes = whole;
  for (size_t i = 0; i + 3 <= num_bytes; i += 3) {
    bytes[(size_t{damage[i]} * 256 + damage[i + 1]) % bytes.size()] = damage[i + 2];
  }
  const auto file = tahmin::GgufFile::Parse(bytes, "damaged");
  if (!file.ok()) return;
  const auto tokenizer = tahmin::Tokenizer::Create(**file);
  if (!tokenizer.ok()) return;
  const auto tokens = (*tokenizer)->Tokenize("the in <|im_end|> \xF0\x9F\x99\x82 12345", {});
  if (tokens.ok()) (void)(*tokenizer)->Detokenize(*tokens, true);
  for (int32_t token = -1; token <= (*tokenizer)->vocab_size(); ++token) {
    (void)(*tokenizer)->TokenBytes(token, true);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t num_bytes) {
  if (num_bytes == 0) return 0;
  if (bytes[0] % 2 == 1) {
    CheckDamagedFile(bytes + 1, num_bytes - 1);
    return 0;
  }
  static const FixedTokenizer gpt2("gpt-2");
  static const FixedTokenizer qwen2("qwen2");
  const std::string text(reinterpret_cast<const char*>(bytes + 1), num_bytes - 1);
  CheckText(bytes[0] % 4 == 0 ? *gpt2.tokenizer : *qwen2.tokenizer, text);
  return 0;
}
