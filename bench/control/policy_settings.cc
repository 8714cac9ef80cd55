#include "bench/control/policy_settings.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/status_macros.h"
#include "control/adaptive.h"
#include "draft/drafter_list.h"
#include "fmt/format.h"

namespace tahmin::bench {
namespace {

constexpr int32_t kMostDraftMax = 256;

int32_t DefaultDraftMax(const PolicySetting& setting) {
  if (setting.is_adaptive) return AdaptiveOptions{}.max_tokens;
  const DraftOptions defaults;
  const DrafterRow& only = *setting.rows.front();
  const bool has_own = setting.rows.size() == 1 && only.default_draft_max != nullptr;
  return has_own ? only.default_draft_max(defaults) : defaults.draft_max;
}

absl::StatusOr<PolicySetting> ParseSetting(std::string_view item, bool has_draft_model) {
  const size_t at = std::min(item.find('@'), item.size());
  const std::string_view names = item.substr(0, at);
  PolicySetting setting{.name = std::string(item)};
  TAHMIN_ASSIGN_OR_RETURN(setting.rows,
                          ParseDrafterList(names, {.has_draft_model = has_draft_model}));
  setting.is_adaptive = names == kAuto || (at == item.size() && CanAdapt(setting.rows));
  for (const DrafterRow* row : setting.rows) {
    if (!row->is_test_only) continue;
    return absl::InvalidArgumentError(fmt::format("'{}' is a drafter for tests", row->name));
  }
  setting.draft_max = DefaultDraftMax(setting);
  if (at == item.size()) return setting;
  const std::string_view digits = item.substr(at + 1);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), setting.draft_max);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size();
  if (!is_number || setting.draft_max < 1 || setting.draft_max > kMostDraftMax) {
    return absl::InvalidArgumentError(
        fmt::format("expected 1 to {} behind '@', found '{}'", kMostDraftMax, digits));
  }
  return setting;
}

}  // namespace

absl::StatusOr<std::vector<PolicySetting>> ParseSettings(std::string_view list,
                                                         bool has_draft_model) {
  std::vector<PolicySetting> settings;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view item = list.substr(begin, end - begin);
    begin = end + 1;
    absl::StatusOr<PolicySetting> setting = ParseSetting(item, has_draft_model);
    if (!setting.ok()) {
      return absl::Status(
          setting.status().code(),
          fmt::format("setting '{}': {}", item, std::string(setting.status().message())));
    }
    settings.push_back(std::move(setting).value());
  }
  return settings;
}

}  // namespace tahmin::bench
