#include "draft/registry.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "draft/lookahead.h"
#include "draft/none.h"
#include "draft/prompt_lookup.h"
#include "draft/recycling_matrix.h"
#include "draft/rest.h"
#include "draft/suffix.h"
#include "draft/test_drafters.h"
#include "draft/token_recycling.h"

namespace tahmin {
namespace {

using DrafterOr = absl::StatusOr<std::unique_ptr<Drafter>>;

DrafterOr FromNone(const DrafterContext&) { return MakeNone(); }

DrafterOr FromDraftModel(const DrafterContext& context) {
  DraftModelResources resources = context.draft_model;
  resources.max_width = std::max(resources.max_width, context.options.draft_width);
  return MakeDraftModel(resources, context.sampling);
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

DrafterOr FromSuffix(const DrafterContext& context) {
  const int32_t vocab_size = context.draft_model.valid_vocab_size;
  if (vocab_size < 1) {
    return absl::FailedPreconditionError("drafter 'suffix' needs a vocabulary of at least 1 id");
  }
  return MakeSuffix(context.suffix_store, vocab_size);
}

DrafterOr FromRest(const DrafterContext& context) { return MakeRest(*context.datastore); }

DrafterOr FromTokenRecycling(const DrafterContext& context) {
  return MakeTokenRecycling(/*matrix=*/nullptr, context.draft_model.valid_vocab_size);
}

DrafterOr FromLookahead(const DrafterContext& context) {
  const LookaheadShape shape = {.window = context.options.lookahead_window,
                                .ngram = context.options.lookahead_ngram,
                                .guesses = context.options.lookahead_guesses};
  TAHMIN_RETURN_IF_ERROR(ValidateLookaheadShape(shape));
  return std::make_unique<Lookahead>(shape, context.draft_model.valid_vocab_size);
}

uint64_t RecyclingBytes(int64_t vocab_size, int64_t) {
  return sizeof(RecyclingMatrix::Row) *
         (static_cast<uint64_t>(vocab_size) + RecyclingMatrix::kPairRows);
}

uint64_t SuffixBytes(int64_t, int64_t context_tokens) {
  constexpr uint64_t kBytesPerToken = 100;  // of the automaton over prompt and output
  return kBytesPerToken * static_cast<uint64_t>(context_tokens);
}

// All of its window and guesses.
int32_t LookaheadDraftMax(const DraftOptions& options) {
  return LookaheadShape{.window = options.lookahead_window,
                        .ngram = options.lookahead_ngram,
                        .guesses = options.lookahead_guesses}
      .MostNodes();
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
     .is_in_auto = true,
     .make = FromDraftModel},
    {.name = "lookup",
     .summary = "copies what followed the latest earlier occurrence of the last few tokens",
     .make = FromPromptLookup},
    {.name = "suffix",
     .summary = "the likeliest continuations of what the text, and earlier outputs, said before",
     .default_width = 3,
     .is_in_auto = true,
     .table_bytes = SuffixBytes,
     .make = FromSuffix},
    {.name = "rest",
     .summary =
         "retrieves what followed the last few tokens in a store of texts (--datastore FILE)",
     .needs_datastore = true,
     .default_width = 3,
     .is_in_auto = true,
     .make = FromRest},
    {.name = "recycling",
     .summary = "the target's own candidates of earlier rows, by the token that they followed",
     .default_width = 4,
     .table_bytes = RecyclingBytes,
     .make = FromTokenRecycling},
    {.name = "lookahead",
     .summary = "n-grams out of a Jacobi window that rides along in the verify pass",
     .default_width = LookaheadShape{}.MostWidth(),
     .default_draft_max = LookaheadDraftMax,
     .make = FromLookahead},
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

}  // namespace tahmin
