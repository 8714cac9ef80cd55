// Small vocabularies for tests, written as GGUF bytes and read back through the real reader.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gguf/gguf_file.h"
#include "gguf/gguf_writer.h"
#include "gtest/gtest.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/tokenizer.h"

namespace tahmin {

// A GGUF file in memory, with the bytes that it views.
struct GgufInMemory {
  explicit GgufInMemory(const GgufWriter& writer) : bytes(writer.ToBytes()) {
    absl::StatusOr<std::unique_ptr<GgufFile>> parsed = GgufFile::Parse(bytes, "test");
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    if (parsed.ok()) file = std::move(parsed).value();
  }
  std::vector<uint8_t> bytes;
  std::unique_ptr<GgufFile> file;
};

struct TestVocabulary {
  std::string model = "gpt2";
  std::optional<std::string> pre = "qwen2";
  std::vector<std::string> tokens;
  std::vector<int32_t> types;  // empty: not written
  std::vector<std::string> merges;
  std::vector<float> scores;  // empty: not written
  std::optional<uint32_t> begin, end, end_of_turn, unknown;
  std::optional<bool> add_begin, add_end, add_space_prefix;

  int32_t Add(const std::string& text, int32_t type, float score = 0) {
    tokens.push_back(text);
    types.push_back(type);
    if (model == "llama") scores.push_back(score);
    return static_cast<int32_t>(tokens.size()) - 1;
  }

  void WriteTo(GgufWriter& writer) const {
    writer.AddString("tokenizer.ggml.model", model);
    if (pre.has_value()) writer.AddString("tokenizer.ggml.pre", *pre);
    writer.AddStringArray("tokenizer.ggml.tokens", tokens);
    if (!types.empty()) writer.AddInt32Array("tokenizer.ggml.token_type", types);
    if (model == "gpt2") writer.AddStringArray("tokenizer.ggml.merges", merges);
    if (!scores.empty()) writer.AddFloat32Array("tokenizer.ggml.scores", scores);
    const std::pair<const char*, std::optional<uint32_t>> ids[] = {
        {"bos", begin}, {"eos", end}, {"eot", end_of_turn}, {"unknown", unknown}};
    for (const auto& [name, id] : ids) {
      if (id.has_value()) writer.AddUint32(fmt::format("tokenizer.ggml.{}_token_id", name), *id);
    }
    if (add_begin) writer.AddBool("tokenizer.ggml.add_bos_token", *add_begin);
    if (add_end) writer.AddBool("tokenizer.ggml.add_eos_token", *add_end);
    if (add_space_prefix) writer.AddBool("tokenizer.ggml.add_space_prefix", *add_space_prefix);
  }

  absl::StatusOr<std::unique_ptr<Tokenizer>> TryCreate(
      std::optional<std::string> pre_override = std::nullopt) const {
    GgufWriter writer;
    WriteTo(writer);
    const GgufInMemory memory(writer);
    return Tokenizer::Create(*memory.file, std::move(pre_override));
  }

  std::unique_ptr<Tokenizer> Create() const {
    absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = TryCreate();
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return tokenizer.ok() ? std::move(tokenizer).value() : nullptr;
  }
};

// Token id = byte for the first 256; then what each merge ("a b", spelled in the byte alphabet)
// makes.
inline TestVocabulary ByteVocabulary(const std::vector<std::string>& merges) {
  TestVocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.Add(EncodeByteAlphabet(std::string(1, static_cast<char>(byte))), 1);
  }
  for (const std::string& merge : merges) {
    const size_t space = merge.find(' ', 1);
    vocabulary.Add(merge.substr(0, space) + merge.substr(space + 1), 1);
  }
  vocabulary.merges = merges;
  return vocabulary;
}

inline std::vector<int32_t> Ids(const Tokenizer& tokenizer, std::string_view text,
                                const TokenizeOptions& options = {}) {
  const absl::StatusOr<std::vector<int32_t>> ids = tokenizer.Tokenize(text, options);
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.ok() ? *ids : std::vector<int32_t>{-1};
}

}  // namespace tahmin
