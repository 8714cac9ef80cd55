// Cuts text into the pieces inside which byte-level BPE may merge, by the regular expressions that
// tokenizer.ggml.pre names. First stage of ByteLevelBpe; immutable after Create, any thread may
// call Split. Where a pre-tokenizer has several expressions they apply one after the other, each to
// the pieces that the one before left; what an expression does not match stays a piece of its own.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tahmin {

class PreTokenizer {
 public:
  // INVALID_ARGUMENT for a name that is not in the list; the message holds the list.
  static absl::StatusOr<std::unique_ptr<PreTokenizer>> Create(std::string_view name);
  ~PreTokenizer();

  // Appends the pieces of `text`, in order and without gaps; they are views into it. A run of bytes
  // that is not UTF-8 is a piece of its own. RESOURCE_EXHAUSTED when the matcher hits its limits;
  // `pieces` then holds nothing usable.
  absl::Status Split(std::string_view text, std::vector<std::string_view>& pieces) const;

  // The Llama-3 family: a piece that is itself a token is that token, whatever the merges say.
  bool ignore_merges() const;

 private:
  PreTokenizer();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tahmin
