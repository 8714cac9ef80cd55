// Files of JSON lines, which the programs here read. Errors say the line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace tahmin::bench {

struct JsonLine {
  int number = 1;  // in the file
  nlohmann::json object;
};

// One object a line; blank lines do not count. INVALID_ARGUMENT: a line is something else.
absl::StatusOr<std::vector<JsonLine>> ParseJsonLines(std::string_view file);

// The status with "PATH, " in front of its message.
absl::Status WithPath(const absl::Status& status, const std::string& path);

}  // namespace tahmin::bench
