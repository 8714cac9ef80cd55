// Text to token ids and back, from the tables of a GGUF file: byte-level BPE (tokenizer.ggml.model
// = gpt2) with the pre-tokenizer that tokenizer.ggml.pre names, and the SentencePiece-style BPE
// (= llama) with byte fallback and the added space. Immutable after Create; usable from any thread.
// An unknown model or pre-tokenizer is an error that names it; there is no default.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "gguf/gguf_file.h"

namespace tahmin {

struct SpecialTokens {
  int32_t begin = -1;  // -1: none
  int32_t end = -1;    // end of text, as the metadata says
  int32_t end_of_turn = -1;
  int32_t unknown = -1;
  int32_t padding = -1;
  // What the metadata says. Absent: true for llama vocabularies and for gpt2 ones with the Llama-3
  // pre-tokenizer (their converters leave it out), where there is a begin token; else false.
  bool add_begin = false;
  bool add_end = false;
  // Every id that ends generation: end, end of turn, tokenizer.ggml.eog_token_ids, and tokens that
  // are marked control and are known turn ends by text (<|im_end|>, <|eot_id|>, <|endoftext|>,
  // <end_of_turn>, <|end|>, ...).
  std::vector<int32_t> end_of_generation;
};

struct TokenizeOptions {
  bool add_special = true;    // begin / end tokens where the metadata asks for them
  bool parse_special = true;  // texts of control tokens become those tokens; else plain text.
                              // User-defined tokens are always matched.
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // pre_override replaces tokenizer.ggml.pre (also where the file has none).
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(
      const GgufFile& file, std::optional<std::string> pre_override = std::nullopt);

  // Any bytes are accepted; bytes that are not UTF-8 go through byte tokens. An input that the
  // pre-tokenizer cannot split within its limits is RESOURCE_EXHAUSTED.
  virtual absl::StatusOr<std::vector<int32_t>> Tokenize(std::string_view text,
                                                        const TokenizeOptions& options) const = 0;

  // The bytes of one token (may be part of a UTF-8 character). Control tokens give their text when
  // `render_special`, else nothing. Unknown ids give nothing.
  virtual std::string TokenBytes(int32_t token, bool render_special) const = 0;
  // All of them joined. SentencePiece models drop the added space at the start.
  virtual std::string Detokenize(const std::vector<int32_t>& tokens, bool render_special) const = 0;

  virtual int32_t vocab_size() const = 0;
  virtual const SpecialTokens& special_tokens() const = 0;
  // Control tokens, and the unknown token: text that is rendered on request only.
  virtual bool IsControl(int32_t token) const = 0;
  virtual std::string_view TokenText(int32_t token) const = 0;  // as the file spells it

  // The number in tokenizer.ggml.token_type: 1 normal, 2 unknown, 3 control, 4 user-defined, 5
  // unused, 6 byte; 0 for an id outside the vocabulary.
  virtual int32_t TokenType(int32_t token) const = 0;

  // True for ids that the vocabulary only pads with ("[PAD151935]", type unused).
  virtual bool IsPadding(int32_t token) const = 0;

  // A number that two tokenizers share when the same text gives the same ids: made of the model,
  // the pre-tokenizer, the token texts and types, and the merges or scores. Padding does not count,
  // as it differs between models of one family. Stable: files that hold ids are marked with it.
  uint64_t Fingerprint() const { return fingerprint_; }

 private:
  uint64_t fingerprint_ = 0;
};

// OK when the draft's vocabulary can serve the target: equal token texts and types over the common
// length, the rest of either being padding, and equal begin and end ids. Else FAILED_PRECONDITION
// that names the first differing id and both texts.
absl::Status CheckSameVocabulary(const Tokenizer& target, const Tokenizer& draft);

}  // namespace tahmin
