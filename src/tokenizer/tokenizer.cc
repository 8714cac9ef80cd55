#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "tokenizer/vocabulary.h"
#include "tokenizer/vocabulary_tokenizer.h"

namespace tahmin {

namespace {

// The pre-tokenizer's name; empty for a model that has none.
absl::StatusOr<std::string> PreTokenizerName(const GgufFile& file, std::string_view model,
                                             const std::optional<std::string>& pre_override) {
  if (model == "llama") {
    if (!pre_override.has_value()) return std::string();
    return absl::InvalidArgumentError(
        fmt::format("pre-tokenizer '{}' was asked for, but tokenizer.ggml.model = llama has none",
                    *pre_override));
  }
  if (model != "gpt2") {
    return absl::InvalidArgumentError(fmt::format(
        "tokenizer.ggml.model: expected 'gpt2' or 'llama', found '{}'", std::string(model)));
  }
  if (pre_override.has_value()) return *pre_override;
  if (file.FindEntry("tokenizer.ggml.pre") == nullptr) {
    return absl::InvalidArgumentError(
        "tokenizer.ggml.pre is missing: name the pre-tokenizer to use; there is no default");
  }
  TAHMIN_ASSIGN_OR_RETURN(const std::string_view pre, file.GetString("tokenizer.ggml.pre"));
  return std::string(pre);
}

// Eight bytes at a time, since it runs at every load. A text is closed by its length, so that no
// two lists of texts run together.
class FieldHash {
 public:
  void Add(std::string_view bytes) {
    for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i, std::min(sizeof(word), bytes.size() - i));
      AddNumber(word);
    }
    AddNumber(bytes.size());
  }
  void AddNumber(uint64_t number) {
    value_ = (value_ ^ number) * 0xff51afd7ed558ccdull;
    value_ ^= value_ >> 32;
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0x9e3779b97f4a7c15ull;
};

// The elements of an array as the file stores them; empty where it has none.
std::string_view RawArray(const GgufFile& file, std::string_view key) {
  const GgufEntry* entry = file.FindEntry(key);
  if (entry == nullptr) return {};
  return {reinterpret_cast<const char*>(entry->bytes.data()), entry->bytes.size()};
}

uint64_t ComputeFingerprint(const GgufFile& file, std::string_view model, std::string_view pre,
                            const Tokenizer& tokenizer) {
  FieldHash hash;
  hash.Add(model);
  hash.Add(pre);
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view text = tokenizer.TokenText(id);
    const int32_t type = tokenizer.TokenType(id);
    // IsPadding is slow for ordinary tokens; those among them that pad begin like this.
    const bool is_ordinary = type == Vocabulary::kNormal && !text.starts_with("[PAD");
    if (!is_ordinary && tokenizer.IsPadding(id)) continue;
    hash.AddNumber(static_cast<uint64_t>(id));
    hash.AddNumber(static_cast<uint64_t>(type));
    hash.Add(text);
  }
  hash.Add(RawArray(file, model == "llama" ? "tokenizer.ggml.scores" : "tokenizer.ggml.merges"));
  return hash.value();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(
    const GgufFile& file, std::optional<std::string> pre_override) {
  TAHMIN_ASSIGN_OR_RETURN(const std::string_view model, file.GetString("tokenizer.ggml.model"));
  TAHMIN_ASSIGN_OR_RETURN(const std::string pre, PreTokenizerName(file, model, pre_override));
  TAHMIN_ASSIGN_OR_RETURN(
      std::unique_ptr<Tokenizer> tokenizer,
      model == "llama" ? CreateSentencePiece(file) : CreateByteLevelBpe(file, pre));
  tokenizer->fingerprint_ = ComputeFingerprint(file, model, pre, *tokenizer);
  return tokenizer;
}

namespace {

absl::Status CheckSameSpecial(std::string_view role, const Tokenizer& target, int32_t target_id,
                              const Tokenizer& draft, int32_t draft_id) {
  if (target_id == draft_id) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("the draft's vocabulary differs: the {} token is {} '{}' in the target and {} "
                  "'{}' in the draft",
                  role, target_id, std::string(target.TokenText(target_id)), draft_id,
                  std::string(draft.TokenText(draft_id))));
}

// Ids that only one of the two has must be padding there.
absl::Status CheckTail(std::string_view owner, const Tokenizer& longer, int32_t common) {
  for (int32_t id = common; id < longer.vocab_size(); ++id) {
    if (longer.IsPadding(id)) continue;
    return absl::FailedPreconditionError(
        fmt::format("the draft's vocabulary differs: token {} is '{}' in the {} and missing in the "
                    "other, which has {} tokens",
                    id, std::string(longer.TokenText(id)), owner, common));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSameVocabulary(const Tokenizer& target, const Tokenizer& draft) {
  const int32_t common = std::min(target.vocab_size(), draft.vocab_size());
  for (int32_t id = 0; id < common; ++id) {
    const std::string_view target_text = target.TokenText(id);
    const std::string_view draft_text = draft.TokenText(id);
    if (target_text == draft_text && target.TokenType(id) == draft.TokenType(id)) continue;
    if (target.IsPadding(id) && draft.IsPadding(id)) continue;
    return absl::FailedPreconditionError(
        fmt::format("the draft's vocabulary differs: token {} is '{}' (type {}) in the target and "
                    "'{}' (type {}) "
                    "in the draft",
                    id, std::string(target_text), target.TokenType(id), std::string(draft_text),
                    draft.TokenType(id)));
  }
  TAHMIN_RETURN_IF_ERROR(CheckTail("target", target, common));
  TAHMIN_RETURN_IF_ERROR(CheckTail("draft", draft, common));
  const SpecialTokens& ours = target.special_tokens();
  const SpecialTokens& theirs = draft.special_tokens();
  TAHMIN_RETURN_IF_ERROR(CheckSameSpecial("begin", target, ours.begin, draft, theirs.begin));
  return CheckSameSpecial("end", target, ours.end, draft, theirs.end);
}

}  // namespace tahmin
