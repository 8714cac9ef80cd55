#include "measure/prompt_file.h"

#include <algorithm>
#include <set>

#include "base/file_contents.h"
#include "base/status_macros.h"
#include "base/text_lines.h"
#include "fmt/format.h"
#include "measure/bench_summary.h"
#include "nlohmann/json.hpp"

namespace tahmin {

namespace {

bool IsTurnList(const nlohmann::json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(),
                     [](const nlohmann::json& turn) { return turn.is_string(); });
}

}  // namespace

absl::StatusOr<std::vector<PromptEntry>> ReadPromptFile(const std::string& path) {
  TAHMIN_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  std::vector<PromptEntry> prompts;
  std::set<std::string> ids;
  for (const auto& [line_number, line] : NonBlankLines(text)) {
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object() || !object.contains("id") || !object["id"].is_string() ||
        !object.contains("group") || !object["group"].is_string() || !object.contains("turns") ||
        !IsTurnList(object["turns"])) {
      return absl::InvalidArgumentError(fmt::format(
          "{}, line {}: expected {{\"id\": text, \"group\": text, \"turns\": [text, ...]}}", path,
          line_number));
    }
    PromptEntry entry{object["id"], object["group"],
                      object["turns"].get<std::vector<std::string>>()};
    if (entry.group == kAllGroups) {
      return absl::InvalidArgumentError(
          fmt::format("{}, line {}: no group may be called '{}', which stands for all of them",
                      path, line_number, kAllGroups));
    }
    if (!ids.insert(entry.id).second) {
      return absl::InvalidArgumentError(
          fmt::format("{}, line {}: id '{}' appears twice", path, line_number, entry.id));
    }
    prompts.push_back(std::move(entry));
  }
  if (prompts.empty())
    return absl::InvalidArgumentError(fmt::format("{}: expected prompts, found none", path));
  return prompts;
}

}  // namespace tahmin
