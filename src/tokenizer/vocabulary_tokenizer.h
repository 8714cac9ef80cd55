// What the tokenizer models share: special tokens cut out first, begin and end added, and every
// query that the token table answers. A model adds how the text between special tokens becomes ids.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gguf/gguf_file.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace tahmin {

class VocabularyTokenizer : public Tokenizer {
 public:
  absl::StatusOr<std::vector<int32_t>> Tokenize(std::string_view text,
                                                const TokenizeOptions& options) const override;
  std::string TokenBytes(int32_t token, bool render_special) const override;
  std::string Detokenize(const std::vector<int32_t>& tokens, bool render_special) const override;
  int32_t vocab_size() const override { return vocabulary_.size(); }
  const SpecialTokens& special_tokens() const override { return vocabulary_.special; }
  bool IsControl(int32_t token) const override { return vocabulary_.IsControl(token); }
  std::string_view TokenText(int32_t token) const override;
  bool IsPadding(int32_t token) const override { return vocabulary_.IsPadding(token); }
  int32_t TokenType(int32_t token) const override;

 protected:
  explicit VocabularyTokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

  // Appends the ids of text that holds no special token; never called with an empty text.
  virtual absl::Status TokenizeText(std::string_view text, std::vector<int32_t>& out) const = 0;
  // The bytes that an ordinary token stands for.
  virtual std::string OrdinaryBytes(int32_t token) const = 0;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
};

// tokenizer.ggml.model = gpt2. `pre` is the pre-tokenizer's name.
absl::StatusOr<std::unique_ptr<Tokenizer>> CreateByteLevelBpe(const GgufFile& file,
                                                              std::string_view pre);
// tokenizer.ggml.model = llama.
absl::StatusOr<std::unique_ptr<Tokenizer>> CreateSentencePiece(const GgufFile& file);

}  // namespace tahmin
