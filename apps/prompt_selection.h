// Which prompts of a file a command runs.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "measure/prompt_file.h"

namespace tahmin::cli {

// The first `limit` prompts (0: all), of the groups in a list separated by commas (empty: all), at
// most per_group of each (0: all). A group without a prompt is a usage error.
absl::StatusOr<std::vector<PromptEntry>> SelectPrompts(const std::vector<PromptEntry>& prompts,
                                                       const std::string& groups, int per_group,
                                                       int limit);

}  // namespace tahmin::cli
