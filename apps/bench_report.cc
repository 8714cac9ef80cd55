#include "apps/bench_report.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/median.h"
#include "fmt/format.h"

namespace tahmin::cli {

namespace {

double GeometricMean(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

// What one drafter did on the prompts of one group.
struct Cell {
  std::vector<double> speedups;           // one median a prompt
  std::vector<double> tokens_per_second;  // one median a prompt
  double lowest = INFINITY, highest = 0;  // single rounds
  int64_t drafted = 0, accepted = 0, committed = 0, steps = 0, different = 0;
};

void AddPrompt(const PromptRuns& prompt, const std::string& group,
               std::map<std::pair<std::string, std::string>, Cell>& cells) {
  std::map<std::string, std::vector<double>> speedups, speeds;
  for (const BenchRun& run : prompt.runs) {
    Cell& cell = cells[{run.drafter, group}];
    cell.drafted += run.stats.drafted;
    cell.accepted += run.stats.accepted;
    cell.steps += run.stats.steps;
    cell.committed +=
        static_cast<int64_t>(std::llround(run.stats.TokensPerStep() * run.stats.steps));
    if (!run.is_identical) {
      ++cell.different;
      continue;
    }
    if (run.speedup <= 0) continue;
    cell.lowest = std::min(cell.lowest, run.speedup);
    cell.highest = std::max(cell.highest, run.speedup);
    speedups[run.drafter].push_back(run.speedup);
    speeds[run.drafter].push_back(run.stats.TokensPerSecond());
  }
  for (const auto& [drafter, values] : speedups) {
    cells[{drafter, group}].speedups.push_back(Median(values));
    cells[{drafter, group}].tokens_per_second.push_back(Median(speeds[drafter]));
  }
}

}  // namespace

nlohmann::json BenchRunToJson(const std::string& id, const std::string& group,
                              const BenchRun& run) {
  nlohmann::json object = {
      {"id", id},
      {"group", group},
      {"drafter", run.drafter},
      {"round", run.round},
      {"ids_hash",
       fmt::format("{:016x}", XXH64(run.tokens.data(), run.tokens.size() * sizeof(int32_t), 0))},
      {"identical", run.is_identical},
      {"generated_tokens", run.stats.generated_tokens},
      {"decode_ms", run.stats.decode_ms},
      {"draft_ms", run.stats.draft_ms},
      {"speedup", nullptr},
      {"tokens_per_second", run.stats.TokensPerSecond()},
      {"tokens_per_step", run.stats.TokensPerStep()},
      {"drafted", run.stats.drafted},
      {"accepted", run.stats.accepted},
      {"acceptance_by_depth", run.stats.AcceptanceByDepth()}};
  if (run.is_identical) object["speedup"] = run.speedup;
  return object;
}

void PrintBenchReport(const std::vector<PromptRuns>& prompts) {
  std::map<std::pair<std::string, std::string>, Cell> cells;
  for (const PromptRuns& prompt : prompts) {
    AddPrompt(prompt, prompt.group, cells);
    AddPrompt(prompt, "all", cells);
  }
  fmt::print("{:<12} {:<16} {:>7} {:>9} {:>15} {:>11} {:>12} {:>10} {:>9}\n", "drafter", "group",
             "prompts", "speed-up", "single rounds", "tokens/s", "tokens/step", "accepted",
             "different");
  for (const auto& [key, cell] : cells) {
    const auto& [drafter, group] = key;
    const bool has_times = !cell.speedups.empty();
    fmt::print(
        "{:<12} {:<16} {:>7} {:>9} {:>15} {:>11} {:>12} {:>10} {:>9}\n", drafter, group,
        cell.speedups.size(), has_times ? fmt::format("{:.2f}", GeometricMean(cell.speedups)) : "-",
        has_times ? fmt::format("{:.2f} - {:.2f}", cell.lowest, cell.highest) : "-",
        has_times ? fmt::format("{:.2f}", GeometricMean(cell.tokens_per_second)) : "-",
        cell.steps > 0 ? fmt::format("{:.2f}", static_cast<double>(cell.committed) / cell.steps)
                       : "-",
        cell.drafted > 0 ? fmt::format("{:.1f} %", 100.0 * cell.accepted / cell.drafted) : "-",
        cell.different);
  }
  fmt::print(
      "speed-up: geometric mean over prompts of the median over rounds, against plain decoding "
      "(none) of the same round\n");
}

}  // namespace tahmin::cli
