#include "apps/document_lines.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace tahmin::cli {

absl::StatusOr<InputDocument> ParseJsonLine(const std::string& line) {
  const nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (object.is_object() && object.contains("text") && object["text"].is_string()) {
    return InputDocument{.text = object["text"].get<std::string>()};
  }
  const bool has_turns = object.is_object() && object.contains("turns") &&
                         object["turns"].is_array() &&
                         std::all_of(object["turns"].begin(), object["turns"].end(),
                                     [](const nlohmann::json& turn) { return turn.is_string(); });
  if (!has_turns) {
    return absl::InvalidArgumentError(
        "expected {\"text\": text} or {\"turns\": [text, ...]} in one line");
  }
  return InputDocument{
      .text =
          fmt::format("{}", fmt::join(object["turns"].get<std::vector<std::string>>(), "\n\n"))};
}

absl::StatusOr<InputDocument> ParseIdsLine(const std::string& line, int32_t vocab_size) {
  InputDocument document;
  const char* cursor = line.data();
  const char* const end = cursor + line.size();
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while ((cursor = std::find_if_not(cursor, end, is_space)) != end) {
    int32_t id = -1;
    const auto [after, error] = std::from_chars(cursor, end, id);
    if (error != std::errc() || id < 0 || id >= vocab_size || (after != end && !is_space(*after))) {
      const std::string_view word(cursor, static_cast<size_t>(std::min<int64_t>(20, end - cursor)));
      return absl::InvalidArgumentError(
          fmt::format("expected token ids from 0 to {} separated by white space, found '{}'",
                      vocab_size - 1, word.substr(0, word.find(' '))));
    }
    document.ids.push_back(id);
    cursor = after;
  }
  return document;
}

}  // namespace tahmin::cli
