#include "bench/control/json_lines.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

namespace tahmin::bench {

absl::StatusOr<std::vector<JsonLine>> ParseJsonLines(std::string_view file) {
  std::vector<JsonLine> lines;
  size_t begin = 0;
  for (int number = 1; begin < file.size(); ++number) {
    const size_t end = std::min(file.find('\n', begin), file.size());
    const std::string_view text = file.substr(begin, end - begin);
    begin = end + 1;
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    nlohmann::json object = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) {
      return absl::InvalidArgumentError(fmt::format("line {}: expected a JSON object", number));
    }
    lines.push_back({number, std::move(object)});
  }
  return lines;
}

absl::Status WithPath(const absl::Status& status, const std::string& path) {
  return absl::Status(status.code(), fmt::format("{}, {}", path, std::string(status.message())));
}

}  // namespace tahmin::bench
