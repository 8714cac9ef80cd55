// Prompt files: one JSON object a line with "id", "group" and "turns" (a list of user messages).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tahmin {

struct PromptEntry {
  std::string id;
  std::string group;
  std::vector<std::string> turns;
};

// Errors name the file, the line and what was found. Ids are unique.
absl::StatusOr<std::vector<PromptEntry>> ReadPromptFile(const std::string& path);

}  // namespace tahmin
