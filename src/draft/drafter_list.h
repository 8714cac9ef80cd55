// What a user writes after --spec as rows of the registry: one name, several joined by '+', or
// "auto".
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "draft/registry.h"

namespace tahmin {

constexpr std::string_view kAuto = "auto";

struct AvailableFiles {
  bool has_draft_model = false;
  bool has_datastore = false;
};

// In the order of calling: drafters that cost nothing come first. "auto": all rows made for it that
// the files allow. INVALID_ARGUMENT: an unknown or repeated name, or "none" beside another.
// FAILED_PRECONDITION: a row needs a file that is not there.
absl::StatusOr<std::vector<const DrafterRow*>> ParseDrafterList(std::string_view list,
                                                                const AvailableFiles& files);

// Whether how much these draft can be left to the controller of "auto": not where one of them says
// itself how much it needs (lookahead: its window), nor where nothing is drafted.
bool CanAdapt(const std::vector<const DrafterRow*>& rows);

}  // namespace tahmin
