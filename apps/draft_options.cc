#include "apps/draft_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/command.h"
#include "base/status_macros.h"
#include "control/adaptive.h"
#include "draft/drafter_list.h"
#include "fmt/format.h"

namespace tahmin::cli {

namespace {

std::string DrafterSummaries() {
  std::string text;
  for (const DrafterRow& row : AllDrafters()) {
    if (!row.is_test_only)
      text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", row.name, row.summary);
  }
  return text;
}

AvailableFiles FilesOf(const EngineOptions& engine) {
  return {.has_draft_model = !engine.draft_model_path.empty(),
          .has_datastore = !engine.datastore_path.empty()};
}

int32_t DefaultDraftMax(const std::vector<const DrafterRow*>& rows, const DraftOptions& options) {
  if (options.is_adaptive) return AdaptiveOptions{}.max_tokens;
  int32_t most = DraftOptions().draft_max;
  for (const DrafterRow* row : rows) {
    if (row->default_draft_max != nullptr) most = std::max(most, row->default_draft_max(options));
  }
  return std::min(most, 256);
}

absl::Status CheckRanges(const DraftOptions& options) {
  if (options.lookup_min_ngram <= options.lookup_max_ngram) return absl::OkStatus();
  return UsageError(fmt::format("--lookup-min {} is larger than --lookup-max {}",
                                options.lookup_min_ngram, options.lookup_max_ngram));
}

}  // namespace

void DraftFlags::AddTo(CLI::App& command) {
  command.add_option("--spec", spec,
                     "drafter, or several joined by '+' (their guesses become one tree). auto: "
                     "suffix, rest with --datastore, draft with -md; as much of each as pays. " +
                         DrafterSummaries() + ". Default: auto");
  command
      .add_option(
          "--draft-max", draft_max,
          "draft tokens a step (K); auto: at most. Default: as many as pay; lookahead: all of its "
          "window; with --accept rejection 4")
      ->check(CLI::Range(1, 256));
  command
      .add_option("--draft-width", draft.draft_width,
                  "most guesses for one place; 1: chains; 0: as suits the drafter")
      ->capture_default_str()
      ->check(CLI::Range(0, 64));
  command.add_option("--lookup-min", draft.lookup_min_ngram, "lookup: shortest n-gram")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  command.add_option("--lookup-max", draft.lookup_max_ngram, "lookup: longest n-gram")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  command
      .add_option("--lookahead-window", draft.lookahead_window,
                  "lookahead: columns of the window (W)")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  command
      .add_option("--lookahead-ngram", draft.lookahead_ngram, "lookahead: tokens of an n-gram (N)")
      ->capture_default_str()
      ->check(CLI::Range(2, 16));
  command
      .add_option("--lookahead-guesses", draft.lookahead_guesses,
                  "lookahead: most n-grams verified a step (G)")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  command
      .add_option(
          "--accept", accept,
          "acceptance rule: keyed (the text of plain decoding) or rejection (p/q rule: the same "
          "distribution, not the same draw)")
      ->capture_default_str();
}

absl::StatusOr<DraftOptions> DraftFlags::Resolve(const EngineOptions& engine,
                                                 const std::string& flag) const {
  DraftOptions options = draft;
  options.drafter = spec.empty() ? std::string(kAuto) : spec;
  if (accept == "rejection" && options.drafter == kAuto) {
    // Under this rule the text depends on how much is drafted, so the clock must not decide it.
    if (!spec.empty() && !draft_max) {
      return UsageError(fmt::format(
          "{} auto lets the clock decide how much is drafted, and with --accept rejection the text "
          "would depend on it: give --draft-max too, or name a drafter",
          flag));
    }
    options.drafter = engine.draft_model_path.empty() ? "suffix" : "draft";
    fmt::print(stderr, "tahmin: note: with --accept rejection the drafter is {}\n",
               options.drafter);
  }
  TAHMIN_RETURN_IF_ERROR(CheckRanges(options));
  const auto rows = ParseDrafterList(options.drafter, FilesOf(engine));
  if (!rows.ok())
    return UsageError(fmt::format("{}: {}", flag, std::string(rows.status().message())));
  options.is_adaptive =
      options.drafter == kAuto || (!draft_max && accept != "rejection" && CanAdapt(*rows));
  options.draft_max = draft_max.value_or(DefaultDraftMax(*rows, options));
  for (const DrafterRow* row : *rows) {
    if (row->is_test_only) return UsageError(fmt::format("{}: {} is for tests", flag, row->name));
  }
  if (rows->size() > 1 && accept == "rejection") {
    return UsageError(
        fmt::format("--accept rejection takes one drafter; {} is '{}'", flag, options.drafter));
  }
  return options;
}

absl::StatusOr<AcceptanceRuleKind> ParseAcceptance(const std::string& accept) {
  if (accept == "keyed") return AcceptanceRuleKind::kKeyed;
  if (accept == "rejection") return AcceptanceRuleKind::kRejection;
  return UsageError(fmt::format("--accept: expected keyed or rejection, found '{}'", accept));
}

bool UsesDraftModel(const DraftOptions& draft, const EngineOptions& engine) {
  const auto rows = ParseDrafterList(draft.drafter, FilesOf(engine));
  return rows.ok() && std::any_of(rows->begin(), rows->end(),
                                  [](const DrafterRow* row) { return row->needs_draft_model; });
}

}  // namespace tahmin::cli
