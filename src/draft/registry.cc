#include "draft/registry.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "draft/none.h"
#include "draft/prompt_lookup.h"
#include "draft/test_drafters.h"

namespace tahmin {
namespace {

using DrafterOr = absl::StatusOr<std::unique_ptr<Drafter>>;

DrafterOr FromNone(const DrafterContext&) { return MakeNone(); }

DrafterOr FromDraftModel(const DrafterContext& context) {
  return MakeDraftModel(context.draft_model, context.sampling);
}

DrafterOr FromPromptLookup(const DrafterContext& context) {
  constexpr int32_t kLongestNgram = 64;  // bounds the index: one entry a token and length
  const int32_t shortest = context.options.lookup_min_ngram;
  const int32_t longest = context.options.lookup_max_ngram;
  if (shortest < 1 || longest < shortest || longest > kLongestNgram) {
    return absl::InvalidArgumentError(
        fmt::format("lookup n-grams of {} to {} tokens; expected 1 <= shortest <= longest <= {}",
                    shortest, longest, kLongestNgram));
  }
  return MakePromptLookup(shortest, longest);
}

DrafterOr FromReplay(const DrafterContext& context) { return MakeReplay(context.script_tokens); }

DrafterOr FromJunk(const DrafterContext& context) {
  const int32_t vocab_size = context.draft_model.valid_vocab_size;
  if (vocab_size < 2) {
    return absl::FailedPreconditionError("drafter 'junk' needs a vocabulary of at least 2 ids");
  }
  return MakeJunk(vocab_size);
}

DrafterOr FromScript(const DrafterContext& context) {
  TAHMIN_ASSIGN_OR_RETURN(std::vector<DraftTree> trees, DecodeScript(context.script_tokens));
  return MakeScript(std::move(trees));
}

constexpr DrafterRow kDrafters[] = {
    {.name = "none", .summary = "plain decoding, no guesses", .make = FromNone},
    {.name = "draft",
     .summary = "a smaller model with the same vocabulary guesses (-md FILE)",
     .needs_draft_model = true,
     .make = FromDraftModel},
    {.name = "lookup",
     .summary = "copies what followed the latest earlier occurrence of the last few tokens",
     .make = FromPromptLookup},
    {.name = "replay",
     .summary = "test: guesses the tokens of an earlier run",
     .is_test_only = true,
     .make = FromReplay},
    {.name = "junk",
     .summary = "test: guesses wrong tokens",
     .is_test_only = true,
     .make = FromJunk},
    {.name = "script",
     .summary = "test: guesses given trees",
     .is_test_only = true,
     .make = FromScript},
};

}  // namespace

std::span<const DrafterRow> AllDrafters() { return kDrafters; }

absl::StatusOr<std::unique_ptr<Drafter>> MakeDrafter(std::string_view name,
                                                     const DrafterContext& context) {
  std::string known;
  for (const DrafterRow& row : kDrafters) {
    if (row.name != name) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
      continue;
    }
    if (row.needs_draft_model && context.draft_model.model == nullptr) {
      return absl::FailedPreconditionError(
          fmt::format("drafter '{}' needs a draft model: give one with -md FILE", name));
    }
    return row.make(context);
  }
  return absl::NotFoundError(fmt::format("no drafter is called '{}'; known are {}", name, known));
}

}  // namespace tahmin
