#include "apps/bench_settings.h"

#include <algorithm>
#include <utility>

#include "apps/command.h"
#include "apps/draft_options.h"
#include "apps/engine_loading.h"
#include "apps/option_effects.h"
#include "apps/option_values.h"
#include "base/status_macros.h"
#include "fmt/format.h"

namespace tahmin::cli {

absl::StatusOr<std::vector<BenchSetting>> MakeBenchSettings(const BenchFlags& flags) {
  const bool has_draft_model = !flags.model.engine.draft_model_path.empty();
  const std::string list = !flags.drafters.empty() ? flags.drafters
                           : has_draft_model       ? "auto,draft,suffix,lookup,recycling"
                                                   : "auto,suffix,lookup,recycling";
  std::vector<BenchSetting> settings;
  for (const std::string& item : SplitCommas(list)) {
    const size_t at = item.find('@');
    DraftFlags draft;
    draft.spec = item.substr(0, at);
    if (draft.spec == "none")
      return UsageError("--drafters: none (plain decoding) runs in any case");
    if (item != "auto") draft.draft_max = flags.draft_max;
    if (at != std::string::npos) {
      TAHMIN_ASSIGN_OR_RETURN(const auto values, ParseIntList(fmt::format("--drafters {}", item),
                                                              item.substr(at + 1), 1, 256));
      draft.draft_max = values[0];
    }
    BenchSetting setting{.name = item, .draft = {}};
    TAHMIN_ASSIGN_OR_RETURN(setting.draft, draft.Resolve(flags.model.engine, "--drafters"));
    const bool is_repeated = std::any_of(settings.begin(), settings.end(),
                                         [&](const auto& other) { return other.name == item; });
    if (is_repeated) return UsageError(fmt::format("--drafters: '{}' is there twice", item));
    settings.push_back(std::move(setting));
  }
  return settings;
}

absl::StatusOr<EngineOptions> MakeBenchEngineOptions(const BenchFlags& flags,
                                                     const std::vector<BenchSetting>& settings) {
  TAHMIN_ASSIGN_OR_RETURN(EngineOptions options, flags.model.Resolve());
  bool list_says_every_draft_max = true, uses_draft_model = false;
  for (const BenchSetting& setting : settings) {
    list_says_every_draft_max &=
        setting.name == "auto" || setting.name.find('@') != std::string::npos;
    uses_draft_model |= UsesDraftModel(setting.draft, options);
    options.draft.draft_max = std::max(options.draft.draft_max, setting.draft.draft_max);
  }
  if (list_says_every_draft_max) {
    NoteNoEffect(*flags.command, {"--draft-max"}, "--drafters says K everywhere");
  }
  DropUnusedDraftModel(*flags.command, uses_draft_model, &options);
  TAHMIN_RETURN_IF_ERROR(FitContext(*flags.command, &options));
  return options;
}

}  // namespace tahmin::cli
