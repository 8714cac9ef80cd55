#include "apps/bench_settings.h"

#include <CLI/CLI.hpp>
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

void BenchFlags::AddTo(CLI::App& app_command) {
  command = &app_command;
  model.AddTo(app_command);
  app_command.add_option("--prompts", prompts_path, "prompt file (JSON lines: id, group, turns)")
      ->required()
      ->type_name("FILE");
  app_command.add_option("--drafters", drafters,
                         "NAME or NAME@K, separated by commas. Default: auto, draft (with a draft "
                         "model), suffix, lookup, recycling");
  app_command
      .add_option("--draft-max", draft_max,
                  "K where --drafters does not say it; auto takes up to 24 unless it is auto@K. "
                  "Default: as much as pays")
      ->check(CLI::Range(1, 256));
  app_command.add_option("--rounds", rounds, "rounds of each prompt")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app_command.add_option("--groups", groups, "only these groups, separated by commas");
  app_command
      .add_option("--per-group", per_group, "at most this many prompts of each group; 0: all")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
  app_command.add_option("--limit", limit, "at most this many prompts; 0: all")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
  app_command.add_option("-n,--predict", max_tokens, "tokens a run")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  app_command.add_option("--temp", temperature, "temperature (seed 0)")->capture_default_str();
  app_command
      .add_option(
          "--accept", accept,
          "acceptance rule: keyed, or rejection, whose text is another draw of the same "
          "distribution at a temperature above 0: acceptance is reported, times are not compared")
      ->capture_default_str();
  chat.AddTo(app_command);
  app_command
      .add_option("--report", report_path,
                  "write an HTML page with charts: speed-up, acceptance by depth, T(n)")
      ->type_name("FILE");
  app_command.add_flag("--json", use_json, "print JSON lines in place of the table");
}

namespace {

// Under the rejection rule the text would depend on what the clock tells `auto`.
std::string DefaultDrafters(const BenchFlags& flags) {
  const std::string model = flags.model.engine.draft_model_path.empty() ? "" : "draft,";
  return (flags.accept == "rejection" ? "" : "auto,") + model + "suffix,lookup,recycling";
}

}  // namespace

absl::StatusOr<std::vector<BenchSetting>> MakeBenchSettings(const BenchFlags& flags) {
  const std::string list = flags.drafters.empty() ? DefaultDrafters(flags) : flags.drafters;
  std::vector<BenchSetting> settings;
  for (const std::string& item : SplitCommas(list)) {
    const size_t at = item.find('@');
    DraftFlags draft;
    draft.spec = item.substr(0, at);
    if (draft.spec.empty())
      return UsageError(fmt::format("--drafters: expected a name, found '{}' in '{}'", item, list));
    draft.accept = flags.accept;
    if (draft.spec == "auto" && flags.accept == "rejection")
      return UsageError("--drafters: with --accept rejection name the drafters; auto is none");
    const bool has_draft_max = item != "auto" && item != "none";
    if (has_draft_max) draft.draft_max = flags.draft_max;
    if (at != std::string::npos) {
      if (draft.spec == "none")
        return UsageError("--drafters: none drafts nothing, so it takes no @K");
      TAHMIN_ASSIGN_OR_RETURN(const auto values, ParseIntList(fmt::format("--drafters {}", item),
                                                              item.substr(at + 1), 1, 256));
      draft.draft_max = values[0];
    }
    // Plain decoding runs in any case; asked for, it runs a second time.
    BenchSetting setting{.name = item == "none" ? "none again" : item, .draft = {}};
    TAHMIN_ASSIGN_OR_RETURN(setting.draft, draft.Resolve(flags.model.engine, "--drafters"));
    const bool is_repeated = std::any_of(settings.begin(), settings.end(), [&](const auto& other) {
      return other.draft.drafter == setting.draft.drafter &&
             other.draft.draft_max == setting.draft.draft_max &&
             other.draft.is_adaptive == setting.draft.is_adaptive;
    });
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
    list_says_every_draft_max &= setting.name == "auto" || setting.name == "none again" ||
                                 setting.name.find('@') != std::string::npos;
    uses_draft_model |= UsesDraftModel(setting.draft, options);
    options.draft.draft_max = std::max(options.draft.draft_max, setting.draft.draft_max);
  }
  if (list_says_every_draft_max) {
    NoteNoEffect(*flags.command, {"--draft-max"}, "--drafters says K everywhere");
  }
  DropUnusedDraftModel(*flags.command, uses_draft_model, &options);
  std::string drafters;
  for (const BenchSetting& setting : settings)
    drafters += (drafters.empty() ? "" : "+") + setting.draft.drafter;
  DropUnusedStores(*flags.command, drafters, &options);
  if (!IsGiven(*flags.command, "--suffix-store"))
    NoteNoEffect(*flags.command, {"--suffix-store-mb"}, "it needs --suffix-store");
  TAHMIN_RETURN_IF_ERROR(FitContext(*flags.command, &options));
  return options;
}

}  // namespace tahmin::cli
