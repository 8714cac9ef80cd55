// Compares policies, `auto` and fixed settings, on recorded texts and a described machine, without
// models and without a clock (simulation.h).
//
//   simulate_auto RECORD --machine avx512_vnni --drafters auto,draft@3,draft+suffix@8
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "bench/control/simulation_report.h"
#include "fmt/format.h"

namespace tahmin::bench {
namespace {

struct Flags {
  std::string record_path, machine = "avx2_zen3", drafters = "auto";
  SimulationOptions simulation;
  ReportParts parts;
  bool use_json = false;
};

absl::Status Run(const Flags& flags) {
  TAHMIN_ASSIGN_OR_RETURN(const MachineCosts machine, ReadMachine(flags.machine));
  TAHMIN_ASSIGN_OR_RETURN(const RecordedTexts record, ReadTextRecords(flags.record_path));
  const bool has_draft_model = !record.header.draft.empty();
  TAHMIN_ASSIGN_OR_RETURN(const auto settings, ParseSettings(flags.drafters, has_draft_model));
  std::vector<SimulatedSetting> simulated;
  for (const PolicySetting& setting : settings) {
    TAHMIN_ASSIGN_OR_RETURN(SimulatedSetting result,
                            Simulate(record, machine, setting, flags.simulation));
    simulated.push_back(std::move(result));
  }
  fmt::print(stderr, "{} texts of {}{}{}; {}: {}\n", record.texts.size(), record.header.target,
             has_draft_model ? " with " : "", record.header.draft, machine.name, machine.note);
  fmt::print(
      "{}", flags.use_json ? ToJsonLines(simulated, flags.parts) : ToTable(simulated, flags.parts));
  return absl::OkStatus();
}

}  // namespace
}  // namespace tahmin::bench

int main(int argc, char** argv) {
  CLI::App app("compare policies on recorded texts, with a virtual clock");
  tahmin::bench::Flags flags;
  app.add_option("record", flags.record_path, "what record_texts wrote")->required();
  app.add_option("--machine", flags.machine, "a name in bench/control/machines, or a JSON file")
      ->capture_default_str();
  app.add_option("--drafters", flags.drafters, "settings, separated by commas: NAMES or NAMES@K")
      ->capture_default_str();
  app.add_option("-n,--predict", flags.simulation.max_tokens,
                 "most tokens of a text, at least 2; 0: all")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--noise", flags.simulation.noise, "log-normal spread of times")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--busy", flags.simulation.busy, "share of the steps that take 1.4 times as long")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--seed", flags.simulation.seed, "of the noise")->capture_default_str();
  app.add_flag("--prompts", flags.parts.texts, "a line for each text");
  app.add_flag("--calibration", flags.parts.calibration,
               "predicted survival against accepted share, by drafter, in ten bins");
  app.add_flag("--json", flags.use_json, "JSON lines in place of the table");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = tahmin::bench::Run(flags);
  if (status.ok()) return 0;
  fmt::print(stderr, "simulate_auto: {}\n", std::string(status.message()));
  return 1;
}
