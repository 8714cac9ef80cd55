// tahmin audit: proves on your model, prompts and options that speculation does not change the
// text.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "apps/audit_grid.h"
#include "apps/audit_report.h"
#include "apps/command.h"
#include "apps/engine_loading.h"
#include "apps/json_output.h"
#include "apps/option_effects.h"
#include "apps/terminal.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "tokenizer/tokenizer.h"

namespace tahmin::cli {

namespace {

constexpr char kAuditExamples[] = R"(Examples:
  tahmin audit -m model.gguf -p "Count to twenty." --draft-max 4 -n 32
  tahmin audit -m model.gguf --prompts bench/prompts/prompts.jsonl --per-group 1
  tahmin audit -m target.gguf -md draft.gguf --prompts prompts.jsonl --draft-max 1,3,8 --threads-list 1,2 --temps 0,0.8
  tahmin audit -m model.gguf -p "Count to twenty." --drafters lookup,junk --json

Runs plain decoding and every drafter that the files allow (draft, lookup, suffix, rest, recycling, lookahead, auto; and
replay, which guesses the plain text, and junk, which guesses wrong) with every draft length, thread count (on a machine
of 8 cores: 8 and 1), temperature and seed, and compares the token ids. Prints a table, with "-" as acceptance where
nothing was drafted; exit code 1 (as for any other error) and the position with both tokens at a difference. --json prints
{"runs", "differences", "rows": [{drafter, draft_max, temperature, threads, runs, differences, drafted, accepted}],
"first_differences": [{prompt, drafter, draft_max, temperature, threads, seed, position, plain_id, speculative_id}]}.
--suffix-store is only read.)";

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

void ShowAuditProgress(const AuditProgress& progress) {
  if (progress.is_prompt_done) {
    PrintAboveProgress(fmt::format("prompt {}: {} runs, {} differences", progress.prompt_id,
                                   progress.runs, progress.differences));
  }
  ShowProgress("auditing", progress.done, progress.total);
}

// The machine's threads, and one.
std::vector<int32_t> DefaultThreads(const Engine& engine) {
  if (engine.num_threads() == 1) return {1};
  return {engine.num_threads(), 1};
}

absl::StatusOr<bool> Audit(const AuditFlags& flags) {
  TAHMIN_RETURN_IF_ERROR(flags.Validate());
  TAHMIN_ASSIGN_OR_RETURN(EngineOptions options, flags.model.Resolve());
  TAHMIN_ASSIGN_OR_RETURN(AuditGrid grid, MakeAuditGrid(flags));
  TAHMIN_ASSIGN_OR_RETURN(const std::vector<PromptEntry> entries, CollectAuditPrompts(flags));
  const bool uses_draft_model = !options.draft_model_path.empty() && UsesDraftModel(grid, options);
  DropUnusedDraftModel(*flags.command, uses_draft_model, &options);
  if (!grid.drafters.empty()) {
    DropUnusedStores(*flags.command, fmt::format("{}", fmt::join(grid.drafters, "+")), &options);
  }
  TAHMIN_RETURN_IF_ERROR(FitContext(*flags.command, &options));
  options.draft.draft_max = *std::max_element(grid.draft_max.begin(), grid.draft_max.end());
  TAHMIN_ASSIGN_OR_RETURN(const auto engine, LoadEngine(options));
  if (grid.threads.empty()) grid.threads = DefaultThreads(*engine);
  TAHMIN_ASSIGN_OR_RETURN(const auto prompts, TokenizePrompts(flags, *engine, entries));
  TAHMIN_ASSIGN_OR_RETURN(const AuditReport report,
                          RunIdentityAudit(*engine, prompts, grid, ShowAuditProgress));
  if (flags.use_json) {
    fmt::print("{}\n", DumpJson(AuditReportToJson(report)));
  } else {
    PrintAuditReport(report);
  }
  NoteIdleDrafters(report);
  return report.num_differences == 0;
}

}  // namespace

void AddAuditCommand(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<AuditFlags>();
  CLI::App* command =
      app.add_subcommand("audit", "Prove that speculation does not change the text");
  flags->AddTo(*command);
  command->footer(kAuditExamples);
  command->callback([flags, exit_code] {
    const auto identical = Audit(*flags);
    *exit_code = identical.ok() ? (*identical ? 0 : 1) : Report(identical.status());
  });
}

}  // namespace tahmin::cli
