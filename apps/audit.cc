// tahmin audit: proves on your model, prompts and options that speculation does not change the
// text.

#include <algorithm>
#include <cstdio>

#include "apps/command.h"
#include "apps/conversation.h"
#include "apps/model_options.h"
#include "apps/option_effects.h"
#include "apps/option_values.h"
#include "apps/prompt_file.h"
#include "apps/terminal.h"
#include "base/status_macros.h"
#include "draft/registry.h"
#include "engine/identity_audit.h"
#include "fmt/format.h"
#include "tokenizer/tokenizer.h"

namespace tahmin::cli {

namespace {

constexpr char kExamples[] = R"(Examples:
  tahmin audit -m model.gguf --prompts bench/prompts/prompts.jsonl --per-group 1
  tahmin audit -m target.gguf -md draft.gguf --prompts prompts.jsonl --draft-max 1,3,8 --threads-list 1,2 --temps 0,0.8
  tahmin audit -m model.gguf -p "Count to twenty." --drafters lookup,junk --json

Runs plain decoding and every drafter (draft where a draft model is given, lookup, replay of the plain text, junk)
with every draft length, thread count, temperature and seed, and compares the token ids. Prints a table; exit code 1 and
the position with both tokens at a difference. --json prints {"runs", "differences", "rows": [...], "first_differences": [...]}.)";

struct AuditFlags {
  const CLI::App* command = nullptr;
  ModelFlags model;
  ChatFlags chat;
  std::string prompt, prompts_path, drafters, groups;
  std::string draft_max = "1,3,4,8", threads_list, temperatures = "0,0.8", seeds = "1",
              prefill_chunks;
  int32_t max_tokens = 64, per_group = 0, limit = 0;
  bool use_json = false, is_raw = false;
};

absl::StatusOr<std::vector<PromptEntry>> CollectPrompts(const AuditFlags& flags) {
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

absl::StatusOr<std::vector<AuditPrompt>> TokenizePrompts(const AuditFlags& flags,
                                                         const Engine& engine,
                                                         const std::vector<PromptEntry>& entries) {
  std::vector<AuditPrompt> prompts;
  for (const PromptEntry& entry : entries) {
    AuditPrompt prompt{.id = entry.id, .tokens = {}};
    if (flags.is_raw) {
      TAHMIN_ASSIGN_OR_RETURN(prompt.tokens, engine.tokenizer().Tokenize(entry.turns[0], {}));
    } else {
      TAHMIN_ASSIGN_OR_RETURN(Conversation conversation, Conversation::Start(engine, flags.chat));
      TAHMIN_ASSIGN_OR_RETURN(prompt.tokens, conversation.Ask(entry.turns[0]));
    }
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

absl::Status CheckUsage(const AuditFlags& flags) {
  const CLI::App& command = *flags.command;
  if (!IsGiven(command, "--prompt") && !IsGiven(command, "--prompts")) {
    return UsageError("no prompts: give -p TEXT or --prompts FILE");
  }
  if (flags.is_raw && flags.chat.IsUsed()) {
    return UsageError("--raw takes no chat template: leave out --system and --chat-template");
  }
  return flags.chat.Validate();
}

absl::StatusOr<std::vector<std::string>> ParseDrafters(const AuditFlags& flags) {
  std::vector<std::string> drafters = SplitCommas(flags.drafters);
  for (const std::string& name : drafters) {
    std::string known;
    const DrafterRow* found = nullptr;
    for (const DrafterRow& row : AllDrafters()) {
      if (row.name == "script") continue;  // needs a script that no flag gives
      known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
      if (row.name == name) found = &row;
    }
    if (found == nullptr) {
      return UsageError(
          fmt::format("--drafters: expected some of {}; found '{}'", known, flags.drafters));
    }
    if (found->needs_draft_model && flags.model.engine.draft_model_path.empty()) {
      return UsageError(
          fmt::format("--drafters {} needs a draft model: add -md FILE.gguf", found->name));
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

// All but the thread count that -t leaves to the machine.
absl::StatusOr<AuditGrid> MakeGrid(const AuditFlags& flags) {
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
  return grid;
}

nlohmann::json ReportToJson(const AuditReport& report) {
  nlohmann::json rows = nlohmann::json::array(), differences = nlohmann::json::array();
  for (const AuditRow& row : report.rows) {
    rows.push_back({{"drafter", row.drafter},
                    {"draft_max", row.draft_max},
                    {"temperature", row.temperature},
                    {"threads", row.threads},
                    {"runs", row.runs},
                    {"differences", row.differences},
                    {"drafted", row.drafted},
                    {"accepted", row.accepted}});
  }
  for (const AuditDifference& difference : report.differences) {
    differences.push_back({{"prompt", difference.prompt_id},
                           {"drafter", difference.drafter},
                           {"draft_max", difference.draft_max},
                           {"temperature", difference.temperature},
                           {"threads", difference.threads},
                           {"seed", difference.seed},
                           {"position", difference.position},
                           {"plain_id", difference.plain_token},
                           {"speculative_id", difference.speculative_token}});
  }
  return {{"runs", report.runs},
          {"differences", report.num_differences},
          {"rows", rows},
          {"first_differences", differences}};
}

void PrintReport(const AuditReport& report) {
  fmt::print("{:<10} {:>9} {:>11} {:>7} {:>6} {:>11} {:>10}\n", "drafter", "draft-max",
             "temperature", "threads", "runs", "differences", "accepted");
  for (const AuditRow& row : report.rows) {
    const std::string accepted =
        row.drafted == 0 ? "-" : fmt::format("{:.1f} %", 100.0 * row.accepted / row.drafted);
    fmt::print("{:<10} {:>9} {:>11} {:>7} {:>6} {:>11} {:>10}\n", row.drafter, row.draft_max,
               row.temperature, row.threads, row.runs, row.differences, accepted);
  }
  for (const AuditDifference& difference : report.differences) {
    fmt::print(
        "DIFFERENT: prompt {}, {} K={} temperature {} threads {} seed {}: at output position {} "
        "plain has {}, "
        "speculative {} (-1: ended)\n",
        difference.prompt_id, difference.drafter, difference.draft_max, difference.temperature,
        difference.threads, difference.seed, difference.position, difference.plain_token,
        difference.speculative_token);
  }
  fmt::print("{} runs, {} differences\n", report.runs, report.num_differences);
}

absl::StatusOr<bool> Audit(const AuditFlags& flags) {
  TAHMIN_RETURN_IF_ERROR(CheckUsage(flags));
  TAHMIN_ASSIGN_OR_RETURN(EngineOptions options, flags.model.Resolve());
  TAHMIN_ASSIGN_OR_RETURN(AuditGrid grid, MakeGrid(flags));
  TAHMIN_ASSIGN_OR_RETURN(const std::vector<PromptEntry> entries, CollectPrompts(flags));
  const bool uses_draft_model =
      !options.draft_model_path.empty() &&
      (grid.drafters.empty() ||
       std::find(grid.drafters.begin(), grid.drafters.end(), "draft") != grid.drafters.end());
  DropUnusedDraftModel(*flags.command, uses_draft_model, &options);
  if (*std::max_element(grid.temperatures.begin(), grid.temperatures.end()) == 0) {
    NoteNoEffect(*flags.command, {"--seeds"}, "every temperature is 0");
  }
  TAHMIN_ASSIGN_OR_RETURN(const auto engine, LoadEngine(options, false));
  if (grid.threads.empty()) grid.threads = {engine->num_threads()};
  TAHMIN_ASSIGN_OR_RETURN(const auto prompts, TokenizePrompts(flags, *engine, entries));
  TAHMIN_ASSIGN_OR_RETURN(const AuditReport report,
                          RunIdentityAudit(*engine, prompts, grid, [](int64_t done, int64_t total) {
                            ShowProgress("auditing", done, total);
                          }));
  if (flags.use_json) {
    fmt::print("{}\n", DumpJson(ReportToJson(report)));
  } else {
    PrintReport(report);
  }
  return report.num_differences == 0;
}

}  // namespace

void AddAuditCommand(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<AuditFlags>();
  CLI::App* command =
      app.add_subcommand("audit", "Prove that speculation does not change the text");
  flags->model.AddTo(*command);
  auto* prompt = command->add_option("-p,--prompt", flags->prompt, "one prompt");
  auto* prompts = command
                      ->add_option("--prompts", flags->prompts_path,
                                   "prompt file (JSON lines: id, group, turns)")
                      ->type_name("FILE")
                      ->excludes(prompt);
  command->add_option("--groups", flags->groups, "only these groups, separated by commas")
      ->needs(prompts);
  command
      ->add_option("--per-group", flags->per_group,
                   "at most this many prompts of each group; 0: all")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20))
      ->needs(prompts);
  command->add_option("--limit", flags->limit, "at most this many prompts; 0: all")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20))
      ->needs(prompts);
  command->add_flag("--raw", flags->is_raw, "no chat template: the prompt's text as it is");
  flags->chat.AddTo(*command);
  command->add_option("--drafters", flags->drafters,
                      "drafters, separated by commas. Default: all that the files allow");
  command->add_option("--draft-max", flags->draft_max, "draft lengths")->capture_default_str();
  command->add_option("--threads-list", flags->threads_list,
                      "thread counts. Default: what -t gives");
  command->add_option("--prefill-chunks", flags->prefill_chunks,
                      "also plain decoding with these prefill chunks");
  command->add_option("--temps", flags->temperatures, "temperatures")->capture_default_str();
  command->add_option("--seeds", flags->seeds, "seeds for temperatures above 0")
      ->capture_default_str();
  command->add_option("-n,--predict", flags->max_tokens, "tokens a run")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  command->add_flag("--json", flags->use_json, "print one JSON object");
  command->footer(kExamples);
  flags->command = command;
  command->callback([flags, exit_code] {
    const auto identical = Audit(*flags);
    *exit_code = identical.ok() ? (*identical ? 0 : 1) : Report(identical.status());
  });
}

}  // namespace tahmin::cli
