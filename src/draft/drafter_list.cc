#include "draft/drafter_list.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace tahmin {
namespace {

using Rows = std::vector<const DrafterRow*>;

bool HasItsFiles(const DrafterRow& row, const AvailableFiles& files) {
  return (!row.needs_draft_model || files.has_draft_model) &&
         (!row.needs_datastore || files.has_datastore);
}

absl::StatusOr<const DrafterRow*> FindRow(std::string_view name, const AvailableFiles& files) {
  std::string known;
  for (const DrafterRow& row : AllDrafters()) {
    if (!row.is_test_only) known += fmt::format("{}, ", row.name);
    if (row.name != name) continue;
    if (row.needs_draft_model && !files.has_draft_model) {
      return absl::FailedPreconditionError(
          fmt::format("drafter '{}' needs a draft model: add -md FILE.gguf", name));
    }
    if (row.needs_datastore && !files.has_datastore) {
      return absl::FailedPreconditionError(
          fmt::format("drafter '{}' needs a datastore: add --datastore FILE", name));
    }
    return &row;
  }
  return absl::InvalidArgumentError(
      fmt::format("expected {}auto, or several joined by '+'; found '{}'", known, name));
}

}  // namespace

absl::StatusOr<Rows> ParseDrafterList(std::string_view list, const AvailableFiles& files) {
  Rows rows;
  if (list == kAuto) {
    for (const DrafterRow& row : AllDrafters()) {
      if (row.is_in_auto && HasItsFiles(row, files)) rows.push_back(&row);
    }
  }
  for (size_t begin = 0; list != kAuto && begin <= list.size();) {
    const size_t end = std::min(list.find('+', begin), list.size());
    const std::string_view name = list.substr(begin, end - begin);
    TAHMIN_ASSIGN_OR_RETURN(const DrafterRow* row, FindRow(name, files));
    if (std::find(rows.begin(), rows.end(), row) != rows.end()) {
      return absl::InvalidArgumentError(fmt::format("'{}' is there twice in '{}'", name, list));
    }
    rows.push_back(row);
    begin = end + 1;
  }
  const bool has_none =
      std::any_of(rows.begin(), rows.end(), [](const auto* row) { return row->name == "none"; });
  if (has_none && rows.size() > 1) {
    return absl::InvalidArgumentError(
        fmt::format("'none' drafts nothing and goes with no other drafter; found '{}'", list));
  }
  std::stable_partition(rows.begin(), rows.end(),
                        [](const DrafterRow* row) { return !row->needs_draft_model; });
  return rows;
}

bool CanAdapt(const Rows& rows) {
  return std::none_of(rows.begin(), rows.end(), [](const DrafterRow* row) {
    return row->name == "none" || row->default_draft_max != nullptr;
  });
}

}  // namespace tahmin
