#include "apps/prompt_selection.h"

#include <algorithm>
#include <map>
#include <set>

#include "apps/command.h"
#include "apps/option_values.h"
#include "fmt/format.h"

namespace tahmin::cli {

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
