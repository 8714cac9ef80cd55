// tahmin bench: drafters against plain decoding on a prompt file.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "apps/bench_html.h"
#include "apps/bench_report.h"
#include "apps/bench_settings.h"
#include "apps/command.h"
#include "apps/draft_options.h"
#include "apps/engine_loading.h"
#include "apps/json_output.h"
#include "apps/output_file.h"
#include "apps/prompt_selection.h"
#include "apps/terminal.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "kernels/isa.h"
#include "sampling/candidates.h"

namespace tahmin::cli {

namespace {

constexpr char kBenchExamples[] = R"(Examples:
  tahmin bench -m model.gguf --prompts bench/prompts/prompts.jsonl --drafters lookup
  tahmin bench -m target.gguf -md draft.gguf --prompts prompts.jsonl --drafters draft@3,draft@5,lookup@8 --rounds 3 --json

  tahmin bench -m model.gguf --prompts prompts.jsonl --drafters none,auto --rounds 5 --report bench.html

Each round runs plain decoding and every drafter (NAME or NAME@K, K draft tokens) on the same prompt, in alternating order.
The drafter none (shown as "none again") is plain decoding a second time: what the machine's noise alone does.
Token ids are compared before a time counts; exit code 1 (as for any other error) when any differ. Default: temperature 0, 128 tokens, the
first turn in the model's chat template. --json prints one line a run: id, group, drafter, round, ids_hash (XXH64 of the
int32 ids), identical, generated_tokens, decode_ms, draft_ms, speedup (null when not identical), tokens_per_second, tokens_per_step,
drafted, accepted, acceptance_by_depth. --suffix-store is only read. decode_ms runs from the end of the target's prefill to the last token.)";

absl::Status WarmUp(Engine& engine, const std::vector<int32_t>& prompt,
                    const BenchOptions& options) {
  BenchOptions brief = options;
  brief.rounds = 1;
  brief.generation.max_tokens = 8;
  return BenchPrompt(engine, prompt, brief, [] {}).status();
}

// The table unless there is JSON on stdout, and the page where one is asked for.
absl::Status WriteReports(const BenchFlags& flags, const EngineOptions& options,
                          const Engine& engine, const std::vector<PromptRuns>& runs,
                          const GroupCurves& curves, std::optional<OutputFile>& page) {
  const std::vector<BenchCell> cells = SummarizeBench(runs, curves);
  if (!flags.use_json) PrintBenchReport(cells);
  if (!page) return absl::OkStatus();
  const auto name = [](const std::string& path) {
    return std::filesystem::path(path).filename().string();
  };
  const BenchHeading heading = {.target = name(options.model_path),
                                .draft = name(options.draft_model_path),
                                .isa = std::string(kernels::IsaName(kernels::ActiveIsa())),
                                .num_threads = engine.num_threads(),
                                .rounds = flags.rounds,
                                .max_tokens = flags.max_tokens,
                                .temperature = flags.temperature};
  page->Write(BenchPage(heading, cells, curves));
  return page->Commit();
}

absl::StatusOr<bool> Bench(const BenchFlags& flags) {
  BenchOptions options;
  options.rounds = flags.rounds;
  options.generation.max_tokens = flags.max_tokens;
  options.generation.sampling.temperature = flags.temperature;
  TAHMIN_RETURN_IF_ERROR(ValidateSamplingOptions(options.generation.sampling, INT32_MAX));
  TAHMIN_RETURN_IF_ERROR(flags.chat.Validate());
  TAHMIN_ASSIGN_OR_RETURN(options.generation.acceptance, ParseAcceptance(flags.accept));
  TAHMIN_ASSIGN_OR_RETURN(options.settings, MakeBenchSettings(flags));
  TAHMIN_ASSIGN_OR_RETURN(const auto all, ReadPromptFile(flags.prompts_path));
  TAHMIN_ASSIGN_OR_RETURN(const auto prompts,
                          SelectPrompts(all, flags.groups, flags.per_group, flags.limit));
  TAHMIN_ASSIGN_OR_RETURN(const EngineOptions engine_options,
                          MakeBenchEngineOptions(flags, options.settings));
  std::optional<OutputFile> page;
  if (!flags.report_path.empty()) {
    TAHMIN_ASSIGN_OR_RETURN(page, OutputFile::Open("--report", flags.report_path));
  }
  TAHMIN_ASSIGN_OR_RETURN(const auto engine, LoadEngine(engine_options));
  fmt::print(stderr, "isa {}, {} threads, {} prompts, {} rounds\n",
             kernels::IsaName(kernels::ActiveIsa()), engine->num_threads(), prompts.size(),
             flags.rounds);

  const uint64_t total = prompts.size() * (options.settings.size() + 1) * flags.rounds;
  uint64_t done = 0;
  bool all_identical = true;
  GenerationStats fullest;  // of the runs whose draft model ran out of context
  const bool has_summary = !flags.use_json || page;
  std::vector<PromptRuns> report;
  GroupCurves curves;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const PromptEntry& prompt = prompts[i];
    TAHMIN_ASSIGN_OR_RETURN(Conversation conversation, Conversation::Start(*engine, flags.chat));
    TAHMIN_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, conversation.Ask(prompt.turns[0]));
    if (report.empty()) TAHMIN_RETURN_IF_ERROR(WarmUp(*engine, tokens, options));
    TAHMIN_ASSIGN_OR_RETURN(auto runs, BenchPrompt(*engine, tokens, options, [&] {
                              ShowProgress("benchmarking", ++done, total);
                            }));
    for (const BenchRun& run : runs) {
      all_identical = all_identical && (run.is_identical || !WritesPlainText(options.generation));
      if (run.stats.draft_context_full_steps > fullest.draft_context_full_steps)
        fullest = run.stats;
      if (flags.use_json)
        fmt::print("{}\n", DumpJson(BenchRunToJson(prompt.id, prompt.group, run)));
    }
    std::fflush(stdout);
    report.push_back({prompt.id, prompt.group, std::move(runs)});
    const bool is_last_of_group =
        std::none_of(prompts.begin() + static_cast<int64_t>(i) + 1, prompts.end(),
                     [&](const PromptEntry& later) { return later.group == prompt.group; });
    if (has_summary && is_last_of_group) {
      TAHMIN_ASSIGN_OR_RETURN(curves[prompt.group], MeasureGroupCurve(*engine, report, prompt.group,
                                                                      engine_options.kv_type));
    }
  }
  if (has_summary) {
    TAHMIN_RETURN_IF_ERROR(WriteReports(flags, engine_options, *engine, report, curves, page));
  }
  NoteFullDraftContext(fullest, engine->draft_context_tokens());
  return all_identical;
}

}  // namespace

void AddBenchCommand(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command =
      app.add_subcommand("bench", "Time drafters against plain decoding on a prompt file");
  flags->AddTo(*command);
  command->footer(kBenchExamples);
  command->callback([flags, exit_code] {
    const auto identical = Bench(*flags);
    *exit_code = identical.ok() ? (*identical ? 0 : 1) : Report(identical.status());
  });
}

}  // namespace tahmin::cli
