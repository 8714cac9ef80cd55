#include "apps/curve_report.h"

#include <string>

#include "apps/terminal.h"
#include "fmt/format.h"
#include "model/model.h"

namespace tahmin::cli {

namespace {

void PrintStages(const nlohmann::json& curve) {
  fmt::print("where the time of a pass goes, in ms\n  {:<16}", "rows");
  for (const nlohmann::json& point : curve) fmt::print(" {:>8}", point["rows"].get<int>());
  for (size_t i = 0; i < kNumPassStages; ++i) {
    const std::string name(PassStageName(static_cast<PassStage>(i)));
    fmt::print("\n  {:<16}", name);
    for (const nlohmann::json& point : curve)
      fmt::print(" {:>8.3f}", point["stage_ms"][name].get<double>());
  }
  fmt::print("\n");
}

}  // namespace

nlohmann::json CurveToJson(const CostCurve& curve, const Engine& engine, int64_t context) {
  const WeightFigures weights = engine.model().weight_figures();
  nlohmann::json points = nlohmann::json::array();
  double extra_rows_fraction = 0;
  int32_t most_rows = 0;
  for (const CurvePoint& point : curve.points) {
    nlohmann::json stages;
    for (size_t stage = 0; stage < kNumPassStages; ++stage)
      stages[PassStageName(static_cast<PassStage>(stage))] = point.stage_ms[stage];
    points.push_back({{"rows", point.rows},
                      {"ms", point.ms},
                      {"attention_ms", stages["attention"]},
                      {"stage_ms", stages},
                      {"min_ms", point.min_ms},
                      {"max_ms", point.max_ms}});
    if (point.rows < most_rows) continue;
    most_rows = point.rows;
    extra_rows_fraction = point.extra_rows_fraction;
  }
  nlohmann::json object = {{"curve", points},
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
  if (curve.draft_ms > 0) object["draft_ms"] = curve.draft_ms;
  return object;
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
  if (object.contains("draft_ms")) {
    fmt::print("draft model: one row {:.2f} ms, {:.3f} of the first pass\n",
               object["draft_ms"].get<double>(), object["draft_ms"].get<double>() / plain_ms);
  }
  PrintStages(object["curve"]);
}

}  // namespace tahmin::cli
