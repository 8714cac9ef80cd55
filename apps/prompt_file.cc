#include "apps/prompt_file.h"

#include <algorithm>
#include <map>
#include <set>

#include "apps/command.h"
#include "apps/option_values.h"
#include "base/status_macros.h"
#include "engine/bench_summary.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace tahmin::cli {

namespace {

bool IsTurnList(const nlohmann::json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(),
                     [](const nlohmann::json& turn) { return turn.is_string(); });
}

}  // namespace

absl::StatusOr<std::vector<PromptEntry>> ReadPromptFile(const std::string& path) {
  TAHMIN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::vector<PromptEntry> prompts;
  std::set<std::string> ids;
  size_t begin = 0;
  for (int line_number = 1; begin < text.size(); ++line_number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
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

absl::StatusOr<std::vector<PromptEntry>> SelectPrompts(const std::vector<PromptEntry>& prompts,
                                                       const std::string& group_list, int per_group,
                                                       int limit) {
  const std::vector<std::string> groups =
      group_list.empty() ? std::vector<std::string>{} : SplitCommas(group_list);
  std::set<std::string> known;
  for (const PromptEntry& prompt : prompts) known.insert(prompt.group);
  for (const std::string& group : groups) {
    if (known.count(group) > 0) continue;
    return UsageError(
        fmt::format("--groups: expected some of {}; found '{}'", fmt::join(known, ", "), group));
  }
  std::vector<PromptEntry> selected;
  std::map<std::string, int> taken;
  for (const PromptEntry& prompt : prompts) {
    const bool wanted =
        groups.empty() || std::find(groups.begin(), groups.end(), prompt.group) != groups.end();
    if (!wanted || (per_group > 0 && taken[prompt.group] >= per_group)) continue;
    if (limit > 0 && static_cast<int>(selected.size()) >= limit) break;
    ++taken[prompt.group];
    selected.push_back(prompt);
  }
  return selected;
}

}  // namespace tahmin::cli
