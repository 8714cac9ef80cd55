// Prompt files: one JSON object a line with "id", "group" and "turns" (a list of user messages).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tahmin::cli {

struct PromptEntry {
  std::string id;
  std::string group;
  std::vector<std::string> turns;
};

// Errors name the file, the line and what was found. Ids are unique.
absl::StatusOr<std::vector<PromptEntry>> ReadPromptFile(const std::string& path);

// The first `limit` prompts (0: all), of the groups in a list separated by commas (empty: all), at
// most per_group of each (0: all). A group without a prompt is a usage error.
absl::StatusOr<std::vector<PromptEntry>> SelectPrompts(const std::vector<PromptEntry>& prompts,
                                                       const std::string& groups, int per_group,
                                                       int limit);

}  // namespace tahmin::cli
