// The policies that are compared, as they are asked for: "auto,draft@3,draft+suffix@8".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "draft/registry.h"

namespace tahmin::bench {

struct PolicySetting {
  std::string name;                          // as it was asked for
  std::vector<const DrafterRow*> rows = {};  // in the order of calling
  bool is_adaptive = false;                  // as much as pays: "auto", and lists without @K
  int32_t draft_max = 0;                     // K
};

// Separated by commas, each a list of drafters as after --spec, with @K for a fixed draft length
// (auto@K: at most K). Without it as much is drafted as pays, 24 tokens at most, or what suits the
// drafter. INVALID_ARGUMENT or FAILED_PRECONDITION, naming the setting: an
// unknown name, K not in 1 .. 256, a drafter for tests, or one whose file is not in the record.
absl::StatusOr<std::vector<PolicySetting>> ParseSettings(std::string_view list,
                                                         bool has_draft_model);

}  // namespace tahmin::bench
