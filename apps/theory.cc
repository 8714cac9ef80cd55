// tahmin theory: what speculative decoding should bring, from acceptance and costs.

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "apps/command.h"
#include "apps/json_output.h"
#include "base/file_contents.h"
#include "base/status_macros.h"
#include "control/speed_theory.h"
#include "fmt/format.h"

namespace tahmin::cli {

namespace {

constexpr char kTheoryExamples[] = R"(Examples:
  tahmin theory --acceptance 0.7 --draft-max 5 --draft-cost 0.28
  tahmin inspect -m model.gguf --curve 1,2,4,8,16 --json > curve.json
  tahmin theory --acceptance 0.7 --draft-max 5 --draft-cost 0.28 --curve curve.json --json

expected_tokens = (1 - a^(K+1)) / (1 - a) tokens for each target pass (a: acceptance, K: draft tokens);
speedup = expected_tokens / (draft_cost K + T(K+1)/T(1)); T is flat unless --curve gives the measured one.
--json prints {"expected_tokens", "speedup", "best_draft_max", "best_speedup"}.)";

struct TheoryFlags {
  double acceptance = 0.7;
  int32_t draft_max = 5;
  double draft_cost = 0.28;
  std::string curve_path;
  bool use_json = false;
};

constexpr int64_t kMostRows = 1 << 20;

// CLI::Range lets NaN pass.
CLI::Validator NumberIn(double min, double max) {
  return CLI::Validator(
      [min, max](std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        if (end != text.c_str() && *end == '\0' && value >= min && value <= max) {
          return std::string();
        }
        return fmt::format("expected a number from {} to {}, found '{}'", min, max, text);
      },
      fmt::format("in [{} - {}]", min, max));
}

absl::StatusOr<VerifyCostCurve> ReadCurve(const std::string& path) {
  VerifyCostCurve curve;
  if (path.empty()) return curve;
  TAHMIN_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  const nlohmann::json object = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto wrong =
      absl::InvalidArgumentError(fmt::format("{}: expected the output of `tahmin inspect --curve "
                                             "1,... --json`: an object with a list `curve` of "
                                             "{{rows, ms}}, ascending, the first with rows 1",
                                             path));
  if (!object.is_object() || !object.contains("curve") || !object["curve"].is_array()) return wrong;
  double plain_ms = 0;
  for (const nlohmann::json& point : object["curve"]) {
    if (!point.is_object() || !point.contains("rows") || !point["rows"].is_number_integer() ||
        !point.contains("ms") || !point["ms"].is_number()) {
      return wrong;
    }
    const int64_t rows = point["rows"].get<int64_t>();
    const double ms = point["ms"].get<double>();
    if (curve.points.empty()) plain_ms = ms;
    const bool ascends = curve.points.empty() ? rows == 1 : rows > curve.points.back().rows;
    if (!ascends || rows > kMostRows || !(ms > 0) || !std::isfinite(ms)) return wrong;
    curve.points.push_back({static_cast<int32_t>(rows), ms / plain_ms});
  }
  if (curve.points.empty()) return wrong;
  return curve;
}

absl::Status Theory(const TheoryFlags& flags) {
  TAHMIN_ASSIGN_OR_RETURN(const VerifyCostCurve curve, ReadCurve(flags.curve_path));
  const double expected = ExpectedTokens(flags.acceptance, flags.draft_max);
  const double speedup =
      PredictedSpeedup(flags.acceptance, flags.draft_max, flags.draft_cost, curve);
  const int32_t best = BestDraftMax(flags.acceptance, flags.draft_cost, curve);
  const double best_speedup = PredictedSpeedup(flags.acceptance, best, flags.draft_cost, curve);
  if (flags.use_json) {
    const nlohmann::json object = {{"expected_tokens", expected},
                                   {"speedup", speedup},
                                   {"best_draft_max", best},
                                   {"best_speedup", best_speedup}};
    fmt::print("{}\n", DumpJson(object));
    return absl::OkStatus();
  }
  fmt::print("expected tokens per target pass  {:.2f}\n", expected);
  fmt::print("speed-up over plain decoding     {:.2f}\n", speedup);
  fmt::print("best --draft-max                 {} (speed-up {:.2f})\n", best, best_speedup);
  return absl::OkStatus();
}

}  // namespace

void AddTheoryCommand(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<TheoryFlags>();
  CLI::App* command =
      app.add_subcommand("theory", "Predict the speed-up from acceptance and costs");
  command->add_option("--acceptance", flags->acceptance, "acceptance rate of one draft token")
      ->capture_default_str()
      ->check(NumberIn(0, 1));
  command->add_option("--draft-max", flags->draft_max, "draft tokens a step (K)")
      ->capture_default_str()
      ->check(CLI::Range(0, 256));
  command
      ->add_option("--draft-cost", flags->draft_cost, "one draft token in units of one plain step")
      ->capture_default_str()
      ->check(NumberIn(0, 1000));
  command
      ->add_option("--curve", flags->curve_path,
                   "measured T(n): JSON written by `tahmin inspect --curve`")
      ->type_name("FILE");
  command->add_flag("--json", flags->use_json, "print one JSON object");
  command->footer(kTheoryExamples);
  command->callback([flags, exit_code] { *exit_code = Report(Theory(*flags)); });
}

}  // namespace tahmin::cli
