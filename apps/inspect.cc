// tahmin inspect: what is in a model file, what it will take, and what this machine can do with it.

#include <cstdio>

#include "apps/command.h"
#include "apps/model_options.h"
#include "apps/option_effects.h"
#include "apps/option_values.h"
#include "apps/terminal.h"
#include "base/status_macros.h"
#include "engine/cost_curve.h"
#include "fmt/format.h"
#include "gguf/gguf_file.h"
#include "kernels/isa.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace tahmin::cli {

namespace {

constexpr char kExamples[] = R"(Examples:
  tahmin inspect -m model.gguf
  tahmin inspect -m model.gguf --tensors
  tahmin inspect -m model.gguf --curve 1,2,4,8,16 --context 256 --json > curve.json

--curve measures T(n): one full Forward pass of n consecutive tokens of real text after --context committed ones, logits
for every row, in rounds interleaved with the machine's own limits; medians. --json prints one object: file,
version, metadata, tensors, memory_plan, isa, supported_isas, and with --curve: threads, curve [{rows, ms,
attention_ms, min_ms, max_ms}], context, rounds, weight_bytes (GGUF bytes of the tensors that a one-row pass reads),
packed_bytes, macs_per_row, extra_rows_fraction (residual rows of the largest pass over its rows),
streaming_bytes_per_second (at streaming_prefetch_distance), int8_macs_per_second, fp32_macs_per_second, activation_formats.)";

struct InspectFlags {
  const CLI::App* command = nullptr;
  ModelFlags model;
  std::string curve;
  int64_t context = 64;
  int32_t rounds = 9;
  bool list_tensors = false, use_json = false;
};

std::string ShapeOf(const GgufTensor& tensor) {
  std::string shape;
  for (int64_t dimension : tensor.dimensions)
    shape += fmt::format("{}{}", shape.empty() ? "" : " x ", dimension);
  return shape;
}

nlohmann::json FileToJson(const GgufFile& file, const MemoryPlan& plan) {
  nlohmann::json metadata = nlohmann::json::object(), tensors = nlohmann::json::array();
  nlohmann::json rows = nlohmann::json::array(), isas = nlohmann::json::array();
  for (const GgufEntry& entry : file.entries())
    metadata[std::string(entry.key)] = FormatGgufValue(entry);
  for (const GgufTensor& tensor : file.tensors()) {
    tensors.push_back({{"name", tensor.name},
                       {"type", TensorTypeName(static_cast<uint32_t>(tensor.type))},
                       {"dimensions", tensor.dimensions},
                       {"bytes", tensor.bytes.size()}});
  }
  for (const MemoryPlanRow& row : plan.rows)
    rows.push_back({{"name", row.name}, {"bytes", row.bytes}});
  for (kernels::Isa isa : kernels::SupportedIsas()) isas.push_back(kernels::IsaName(isa));
  return {{"file", file.path()},
          {"version", file.version()},
          {"metadata", metadata},
          {"tensors", tensors},
          {"memory_plan", {{"rows", rows}, {"total_bytes", plan.total_bytes}}},
          {"isa", kernels::IsaName(kernels::ActiveIsa())},
          {"supported_isas", isas}};
}

void PrintFile(const GgufFile& file, const MemoryPlan& plan, bool list_tensors) {
  fmt::print("file      {} (GGUF v{}, {})\n", file.path(), file.version(),
             FormatBytes(file.file_bytes()));
  std::string isas;
  for (kernels::Isa isa : kernels::SupportedIsas())
    isas += fmt::format(" {}", kernels::IsaName(isa));
  fmt::print("isa       {} (this machine has:{})\n", kernels::IsaName(kernels::ActiveIsa()), isas);
  fmt::print("metadata\n");
  for (const GgufEntry& entry : file.entries())
    fmt::print("  {} = {}\n", entry.key, FormatGgufValue(entry));
  fmt::print("tensors   {}{}\n", file.tensors().size(),
             list_tensors ? "" : " (list them with --tensors)");
  for (const GgufTensor& tensor : file.tensors()) {
    if (!list_tensors) break;
    fmt::print("  {:<32} {:<6} {:<20} {}\n", tensor.name,
               TensorTypeName(static_cast<uint32_t>(tensor.type)), ShapeOf(tensor),
               FormatBytes(tensor.bytes.size()));
  }
  fmt::print("memory plan\n");
  for (const MemoryPlanRow& row : plan.rows)
    fmt::print("  {:<24} {}\n", row.name, FormatBytes(row.bytes));
  fmt::print("  {:<24} {}\n", "total", FormatBytes(plan.total_bytes));
}

nlohmann::json CurveToJson(const CostCurve& curve, const Engine& engine, int64_t context) {
  const WeightFigures weights = engine.model().weight_figures();
  nlohmann::json points = nlohmann::json::array();
  double extra_rows_fraction = 0;
  int32_t most_rows = 0;
  for (const CurvePoint& point : curve.points) {
    points.push_back({{"rows", point.rows},
                      {"ms", point.ms},
                      {"attention_ms", point.attention_ms},
                      {"min_ms", point.min_ms},
                      {"max_ms", point.max_ms}});
    if (point.rows < most_rows) continue;
    most_rows = point.rows;
    extra_rows_fraction = point.extra_rows_fraction;
  }
  return {{"curve", points},
          {"context", context},
          {"rounds", curve.rounds},
          {"threads", engine.num_threads()},
          {"weight_bytes", weights.gguf_bytes},
          {"packed_bytes", weights.packed_bytes},
          {"macs_per_row", weights.macs_per_row},
          {"extra_rows_fraction", extra_rows_fraction},
          {"streaming_bytes_per_second", curve.streaming_bytes_per_second},
          {"streaming_prefetch_distance", curve.streaming_prefetch_distance},
          {"int8_macs_per_second", curve.int8_macs_per_second},
          {"fp32_macs_per_second", curve.fp32_macs_per_second},
          {"activation_formats", engine.model().DescribeActivationFormats()}};
}

void PrintCurve(const nlohmann::json& object) {
  const double plain_ms = object["curve"][0]["ms"];
  fmt::print("T(n) after {} tokens, {} threads, medians of {} rounds\n",
             object["context"].get<int64_t>(), object["threads"].get<int>(),
             object["rounds"].get<int>());
  fmt::print("  {:>4} {:>9} {:>13} {:>11}\n", "rows", "ms", "attention ms", "to first");
  for (const nlohmann::json& point : object["curve"]) {
    fmt::print("  {:>4} {:>9.2f} {:>13.2f} {:>11.2f}\n", point["rows"].get<int>(),
               point["ms"].get<double>(), point["attention_ms"].get<double>(),
               point["ms"].get<double>() / plain_ms);
  }
  const double bytes = object["packed_bytes"].get<double>();
  const double streaming = object["streaming_bytes_per_second"];
  fmt::print(
      "streaming {:.1f} GB/s, int8 {:.0f} GMAC/s, fp32 {:.0f} GMAC/s; packed weights {} read at "
      "{:.1f} GB/s by "
      "the first pass ({:.0f} % of streaming)\n",
      streaming / 1e9, object["int8_macs_per_second"].get<double>() / 1e9,
      object["fp32_macs_per_second"].get<double>() / 1e9, FormatBytes(static_cast<uint64_t>(bytes)),
      bytes / plain_ms / 1e6, 100.0 * bytes / plain_ms * 1e3 / streaming);
  fmt::print("residual rows {:.1f} % of the rows; {}\n",
             100.0 * object["extra_rows_fraction"].get<double>(),
             object["activation_formats"].get<std::string>());
}

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

absl::StatusOr<nlohmann::json> MeasureCurve(const CostCurveOptions& curve_options,
                                            EngineOptions options) {
  options.draft_model_path.clear();
  TAHMIN_ASSIGN_OR_RETURN(const auto engine, LoadEngine(options, false));
  TAHMIN_ASSIGN_OR_RETURN(const std::vector<int32_t> text,
                          engine->tokenizer().Tokenize(std::string(CostCurveText()), {}));
  TAHMIN_ASSIGN_OR_RETURN(const CostCurve curve,
                          MeasureCostCurve(engine->model(), text, curve_options, engine->pool(),
                                           [](int64_t done, int64_t total) {
                                             ShowProgress("measuring", done, total);
                                           }));
  return CurveToJson(curve, *engine, curve_options.context);
}

absl::Status Inspect(const InspectFlags& flags) {
  TAHMIN_ASSIGN_OR_RETURN(const EngineOptions options, flags.model.Resolve());
  TAHMIN_ASSIGN_OR_RETURN(const CostCurveOptions curve_options,
                          MakeCurveOptions(flags, options.kv_type));
  if (flags.use_json)
    NoteNoEffect(*flags.command, {"--tensors"}, "--json always lists the tensors");
  if (options.draft_model_path.empty()) {
    NoteNoEffect(*flags.command, {"--draft-kv-type"}, "no draft model is given");
  }
  TAHMIN_RETURN_IF_ERROR(kernels::SelectIsa().status());
  TAHMIN_ASSIGN_OR_RETURN(const auto file, GgufFile::Open(options.model_path));
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
  command->footer(kExamples);
  flags->command = command;
  command->callback([flags, exit_code] { *exit_code = Report(Inspect(*flags)); });
}

}  // namespace tahmin::cli
