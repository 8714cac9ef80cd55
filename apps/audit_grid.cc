#include "apps/audit_grid.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/command.h"
#include "apps/draft_options.h"
#include "apps/option_effects.h"
#include "apps/option_values.h"
#include "apps/prompt_selection.h"
#include "base/status_macros.h"
#include "draft/drafter_list.h"
#include "fmt/format.h"

namespace tahmin::cli {

namespace {

absl::StatusOr<std::vector<std::string>> ParseDrafters(const AuditFlags& flags) {
  std::vector<std::string> drafters = SplitCommas(flags.drafters);
  const AvailableFiles files{.has_draft_model = !flags.model.engine.draft_model_path.empty(),
                             .has_datastore = !flags.model.engine.datastore_path.empty()};
  for (const std::string& name : drafters) {
    const auto rows = ParseDrafterList(name, files);
    if (!rows.ok()) {
      return UsageError(fmt::format("--drafters: {}", std::string(rows.status().message())));
    }
    for (const DrafterRow* row : *rows) {
      if (row->name == "script") return UsageError("--drafters: script needs a script");
    }
  }
  return drafters;
}

absl::StatusOr<std::vector<double>> ParseTemperatures(const std::string& text) {
  TAHMIN_ASSIGN_OR_RETURN(std::vector<double> temperatures, ParseNumberList("--temps", text));
  if (*std::min_element(temperatures.begin(), temperatures.end()) < 0) {
    return UsageError(fmt::format("--temps: expected numbers >= 0, found '{}'", text));
  }
  return temperatures;
}

}  // namespace

void AuditFlags::AddTo(CLI::App& app_command) {
  command = &app_command;
  model.AddTo(app_command);
  auto* prompt_option = app_command.add_option("-p,--prompt", prompt, "one prompt");
  auto* prompts_option =
      app_command
          .add_option("--prompts", prompts_path, "prompt file (JSON lines: id, group, turns)")
          ->type_name("FILE")
          ->excludes(prompt_option);
  app_command.add_option("--groups", groups, "only these groups, separated by commas")
      ->needs(prompts_option);
  app_command
      .add_option("--per-group", per_group, "at most this many prompts of each group; 0: all")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20))
      ->needs(prompts_option);
  app_command.add_option("--limit", limit, "at most this many prompts; 0: all")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20))
      ->needs(prompts_option);
  app_command.add_flag("--raw", is_raw, "no chat template: the prompt's text as it is");
  chat.AddTo(app_command);
  app_command.add_option("--drafters", drafters,
                         "drafters, separated by commas. Default: all that the files allow");
  app_command.add_option("--draft-max", draft_max, "draft lengths")->capture_default_str();
  app_command.add_option("--threads-list", threads_list,
                         "thread counts. Default: what -t gives, and 1");
  app_command.add_option("--prefill-chunks", prefill_chunks,
                         "also plain decoding with these prefill chunks");
  app_command.add_option("--temps", temperatures, "temperatures")->capture_default_str();
  app_command.add_option("--seeds", seeds, "seeds for temperatures above 0")->capture_default_str();
  app_command.add_option("-n,--predict", max_tokens, "tokens a run")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  app_command.add_flag("--json", use_json, "print one JSON object");
}

absl::Status AuditFlags::Validate() const {
  if (!IsGiven(*command, "--prompt") && !IsGiven(*command, "--prompts")) {
    return UsageError("no prompts: give -p TEXT or --prompts FILE");
  }
  if (is_raw && chat.IsUsed()) {
    return UsageError("--raw takes no chat template: leave out --system and --chat-template");
  }
  return chat.Validate();
}

absl::StatusOr<std::vector<PromptEntry>> CollectAuditPrompts(const AuditFlags& flags) {
  std::vector<PromptEntry> entries;
  if (IsGiven(*flags.command, "--prompt")) {
    entries.push_back({"-p", "command line", {flags.prompt}});
  }
  if (!flags.prompts_path.empty()) {
    TAHMIN_ASSIGN_OR_RETURN(entries, ReadPromptFile(flags.prompts_path));
    TAHMIN_ASSIGN_OR_RETURN(entries,
                            SelectPrompts(entries, flags.groups, flags.per_group, flags.limit));
  }
  return entries;
}

absl::StatusOr<AuditGrid> MakeAuditGrid(const AuditFlags& flags) {
  AuditGrid grid;
  grid.max_tokens = flags.max_tokens;
  if (IsGiven(*flags.command, "--drafters")) {
    TAHMIN_ASSIGN_OR_RETURN(grid.drafters, ParseDrafters(flags));
  }
  TAHMIN_ASSIGN_OR_RETURN(grid.draft_max, ParseIntList("--draft-max", flags.draft_max, 1, 256));
  grid.threads.clear();
  if (IsGiven(*flags.command, "--threads-list")) {
    TAHMIN_ASSIGN_OR_RETURN(grid.threads,
                            ParseIntList("--threads-list", flags.threads_list, 1, 1024));
  }
  TAHMIN_ASSIGN_OR_RETURN(grid.temperatures, ParseTemperatures(flags.temperatures));
  TAHMIN_ASSIGN_OR_RETURN(grid.seeds, ParseIntList("--seeds", flags.seeds, 0, INT32_MAX));
  if (IsGiven(*flags.command, "--prefill-chunks")) {
    TAHMIN_ASSIGN_OR_RETURN(grid.prefill_chunks,
                            ParseIntList("--prefill-chunks", flags.prefill_chunks, 1, 65536));
  }
  const bool all_are_plain =
      !grid.drafters.empty() && std::all_of(grid.drafters.begin(), grid.drafters.end(),
                                            [](const std::string& name) { return name == "none"; });
  if (all_are_plain) NoteNoEffect(*flags.command, {"--draft-max"}, "every drafter is none");
  if (*std::max_element(grid.temperatures.begin(), grid.temperatures.end()) == 0) {
    NoteNoEffect(*flags.command, {"--seeds"}, "every temperature is 0");
  }
  if (!grid.threads.empty()) {
    NoteNoEffect(*flags.command, {"--threads"}, "--threads-list says the thread counts");
  }
  return grid;
}

bool UsesDraftModel(const AuditGrid& grid, const EngineOptions& engine) {
  return grid.drafters.empty() ||
         std::any_of(grid.drafters.begin(), grid.drafters.end(), [&engine](const auto& name) {
           return UsesDraftModel({.drafter = name}, engine);
         });
}

}  // namespace tahmin::cli
