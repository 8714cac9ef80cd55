#include "bench/control/json_lines.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
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

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  std::error_code error;
  std::ostringstream text;
  // Reading a directory throws.
  const bool is_readable = !std::filesystem::is_directory(path, error);
  std::ifstream file(path, std::ios::binary);
  if (!is_readable || !file) return absl::NotFoundError(fmt::format("{}: it cannot be read", path));
  text << file.rdbuf();
  return std::move(text).str();
}

absl::Status WithPath(const absl::Status& status, const std::string& path) {
  return absl::Status(status.code(), fmt::format("{}, {}", path, std::string(status.message())));
}

}  // namespace tahmin::bench
