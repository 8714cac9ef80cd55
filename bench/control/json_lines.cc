#include "bench/control/json_lines.h"

#include <utility>

#include "base/text_lines.h"
#include "fmt/format.h"

namespace tahmin::bench {

absl::StatusOr<std::vector<JsonLine>> ParseJsonLines(std::string_view file) {
  std::vector<JsonLine> lines;
  for (const auto& [number, text] : NonBlankLines(file)) {
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
