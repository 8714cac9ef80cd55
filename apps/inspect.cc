// tahmin inspect: what is in a model file, what it will take, and what this machine can do with it.

#include <CLI/CLI.hpp>
#include <cstdio>

#include "apps/command.h"
#include "apps/curve_report.h"
#include "apps/engine_loading.h"
#include "apps/file_report.h"
#include "apps/json_output.h"
#include "apps/model_options.h"
#include "apps/option_effects.h"
#include "apps/option_values.h"
#include "apps/terminal.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "gguf/gguf_file.h"
#include "kernels/isa.h"
#include "measure/cost_curve.h"
#include "tokenizer/tokenizer.h"

namespace tahmin::cli {

namespace {

constexpr char kInspectExamples[] = R"(Examples:
  tahmin inspect -m model.gguf
  tahmin inspect -m model.gguf --tensors
  tahmin inspect -m model.gguf --curve 1,2,4,8,16 --context 256 --json > curve.json

--curve measures T(n): one full Forward pass of n consecutive tokens of real text after --context committed ones, logits
for every row, in rounds interleaved with the machine's own limits; medians. With -md one row of the draft model, as it is
loaded to draft, is measured in the same rounds. --json prints one object: file,
version, metadata, tensors, memory_plan, isa, supported_isas, and with --curve: threads, curve [{rows, ms,
attention_ms, stage_ms (all stages of a pass), min_ms, max_ms}], context, rounds, weight_bytes (GGUF bytes of the tensors that a one-row pass reads),
packed_bytes, macs_per_row, extra_rows_fraction (residual rows of the largest pass over its rows),
streaming_bytes_per_second (at streaming_prefetch_distance), int8_macs_per_second, fp32_macs_per_second, activation_formats; with -md draft_ms.)";

struct InspectFlags {
  const CLI::App* command = nullptr;
  ModelFlags model;
  std::string curve;
  int64_t context = 64;
  int32_t rounds = 9;
  bool list_tensors = false, use_json = false;
};

// The options of --curve, checked before anything is read or printed; no rows: no curve is wanted.
absl::StatusOr<CostCurveOptions> MakeCurveOptions(const InspectFlags& flags, KvType kv_type) {
  CostCurveOptions options;
  options.rows.clear();
  options.context = flags.context;
  options.rounds = flags.rounds;
  options.kv_type = kv_type;
  const bool has_details =
      IsGiven(*flags.command, "--context") || IsGiven(*flags.command, "--rounds");
  if (!IsGiven(*flags.command, "--curve")) {
    if (has_details) return UsageError("--context and --rounds need --curve");
    return options;
  }
  TAHMIN_ASSIGN_OR_RETURN(options.rows, ParseIntList("--curve", flags.curve, 1, 4096));
  for (size_t i = 1; i < options.rows.size(); ++i) {
    if (options.rows[i] > options.rows[i - 1]) continue;
    return UsageError(
        fmt::format("--curve: expected ascending row counts, found '{}'", flags.curve));
  }
  return options;
}

absl::StatusOr<nlohmann::json> MeasureCurve(CostCurveOptions curve_options,
                                            const EngineOptions& options) {
  TAHMIN_ASSIGN_OR_RETURN(const auto engine, LoadEngine(options, PlanOutput::kSilent));
  TAHMIN_ASSIGN_OR_RETURN(const std::vector<int32_t> text,
                          engine->tokenizer().Tokenize(std::string(CostCurveText()), {}));
  curve_options.draft_model = engine->draft_model();
  curve_options.draft_kv_type = options.draft_kv_type;
  TAHMIN_ASSIGN_OR_RETURN(const CostCurve curve,
                          MeasureCostCurve(engine->model(), text, curve_options, engine->pool(),
                                           [](int64_t done, int64_t total) {
                                             ShowProgress("measuring", done, total);
                                           }));
  return CurveToJson(curve, *engine, curve_options.context);
}

absl::Status Inspect(const InspectFlags& flags) {
  TAHMIN_ASSIGN_OR_RETURN(EngineOptions options, flags.model.Resolve());
  TAHMIN_ASSIGN_OR_RETURN(const CostCurveOptions curve_options,
                          MakeCurveOptions(flags, options.kv_type));
  if (flags.use_json)
    NoteNoEffect(*flags.command, {"--tensors"}, "--json always lists the tensors");
  if (options.draft_model_path.empty()) {
    NoteDraftModelOptions(*flags.command, "no draft model is given");
  }
  TAHMIN_RETURN_IF_ERROR(kernels::SelectIsa().status());
  TAHMIN_ASSIGN_OR_RETURN(const auto file, GgufFile::Open(options.model_path));
  if (curve_options.rows.empty()) {
    NoteUnusedPreTokenizer(*flags.command, *file, "only --curve reads text");
  }
  TAHMIN_RETURN_IF_ERROR(FitContext(*flags.command, &options));
  TAHMIN_ASSIGN_OR_RETURN(const MemoryPlan plan, Engine::Plan(options));
  nlohmann::json object = FileToJson(*file, plan);
  if (!flags.use_json) PrintFile(*file, plan, flags.list_tensors);
  if (!curve_options.rows.empty()) {
    TAHMIN_ASSIGN_OR_RETURN(const nlohmann::json curve, MeasureCurve(curve_options, options));
    object.update(curve);
    if (!flags.use_json) PrintCurve(curve);
  }
  if (flags.use_json) fmt::print("{}\n", DumpJson(object));
  return absl::OkStatus();
}

}  // namespace

void AddInspectCommand(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command =
      app.add_subcommand("inspect", "Show a model file, its memory plan, and the cost curve T(n)");
  flags->model.AddTo(*command);
  command->add_flag("--tensors", flags->list_tensors, "list every tensor");
  command->add_option("--curve", flags->curve,
                      "measure T(n) for these row counts, for example 1,2,4,8,16");
  command->add_option("--context", flags->context, "committed tokens before the measured rows")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
  command->add_option("--rounds", flags->rounds, "rounds of the measurement")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  command->add_flag("--json", flags->use_json, "print one JSON object");
  command->footer(kInspectExamples);
  flags->command = command;
  command->callback([flags, exit_code] { *exit_code = Report(Inspect(*flags)); });
}

}  // namespace tahmin::cli
