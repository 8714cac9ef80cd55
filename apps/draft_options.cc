#include "apps/draft_options.h"

#include "apps/command.h"
#include "draft/registry.h"
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

}  // namespace

void DraftFlags::AddTo(CLI::App& command) {
  command.add_option(
      "--spec", spec,
      "drafter. " + DrafterSummaries() + ". Default: draft when a draft model is given, else none");
  command.add_option("--draft-max", draft.draft_max, "most draft tokens a step (K)")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  command.add_option("--lookup-min", draft.lookup_min_ngram, "lookup: shortest n-gram")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  command.add_option("--lookup-max", draft.lookup_max_ngram, "lookup: longest n-gram")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  command
      .add_option(
          "--accept", accept,
          "acceptance rule: keyed (the text of plain decoding) or rejection (p/q rule: the same "
          "distribution, not the same draw)")
      ->capture_default_str();
}

absl::StatusOr<DraftOptions> DraftFlags::Resolve(const std::string& draft_model_path,
                                                 const std::string& flag) const {
  DraftOptions options = draft;
  options.drafter = !spec.empty() ? spec : draft_model_path.empty() ? "none" : "draft";
  if (options.lookup_min_ngram > options.lookup_max_ngram) {
    return UsageError(fmt::format("--lookup-min {} is larger than --lookup-max {}",
                                  options.lookup_min_ngram, options.lookup_max_ngram));
  }
  std::string known;
  for (const DrafterRow& row : AllDrafters()) {
    if (row.is_test_only) continue;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
    if (row.name != options.drafter) continue;
    if (row.needs_draft_model && draft_model_path.empty()) {
      return UsageError(
          fmt::format("{} {} needs a draft model: add -md FILE.gguf", flag, row.name));
    }
    return options;
  }
  return UsageError(
      fmt::format("{}: expected one of {}; found '{}'", flag, known, options.drafter));
}

absl::StatusOr<AcceptanceRuleKind> DraftFlags::ResolveAcceptance() const {
  if (accept == "keyed") return AcceptanceRuleKind::kKeyed;
  if (accept == "rejection") return AcceptanceRuleKind::kRejection;
  return UsageError(fmt::format("--accept: expected keyed or rejection, found '{}'", accept));
}

}  // namespace tahmin::cli
