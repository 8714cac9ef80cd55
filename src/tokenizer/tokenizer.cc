#include "tokenizer/tokenizer.h"

#include <algorithm>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "tokenizer/vocabulary_tokenizer.h"

namespace tahmin {

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(
    const GgufFile& file, std::optional<std::string> pre_override) {
  TAHMIN_ASSIGN_OR_RETURN(const std::string_view model, file.GetString("tokenizer.ggml.model"));
  if (model == "llama") {
    if (pre_override.has_value()) {
      return absl::InvalidArgumentError(
          fmt::format("pre-tokenizer '{}' was asked for, but tokenizer.ggml.model = llama has none",
                      *pre_override));
    }
    return CreateSentencePiece(file);
  }
  if (model != "gpt2") {
    return absl::InvalidArgumentError(fmt::format(
        "tokenizer.ggml.model: expected 'gpt2' or 'llama', found '{}'", std::string(model)));
  }
  if (pre_override.has_value()) return CreateByteLevelBpe(file, *pre_override);
  if (file.FindEntry("tokenizer.ggml.pre") == nullptr) {
    return absl::InvalidArgumentError(
        "tokenizer.ggml.pre is missing: name the pre-tokenizer to use; there is no default");
  }
  TAHMIN_ASSIGN_OR_RETURN(const std::string_view pre, file.GetString("tokenizer.ggml.pre"));
  return CreateByteLevelBpe(file, pre);
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
