#include "apps/bench_report.h"

#include <xxhash.h>

#include "fmt/format.h"

namespace tahmin::cli {

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

std::string FormatSpeedup(const BenchCell& cell) {
  if (cell.num_prompts == 0) return "-";
  // One measurement says nothing of its spread.
  if (cell.interval.low == cell.interval.high) return fmt::format("{:.2f}", cell.speedup);
  return fmt::format("{:.2f} ({:.2f} - {:.2f})", cell.speedup, cell.interval.low,
                     cell.interval.high);
}

void PrintBenchReport(const std::vector<BenchCell>& cells) {
  static constexpr char kRow[] =
      "{:<14} {:<16} {:>7} {:>20} {:>9} {:>6} {:>9} {:>11} {:>9} {:>9}\n";
  fmt::print(kRow, "drafter", "group", "prompts", "speed-up (95 %)", "predicted", "worst",
             "tokens/s", "tokens/step", "accepted", "different");
  for (const BenchCell& cell : cells) {
    const auto number = [](double value) {
      return value > 0 ? fmt::format("{:.2f}", value) : std::string("-");
    };
    fmt::print(kRow, cell.drafter, cell.group, cell.num_prompts, FormatSpeedup(cell),
               number(cell.predicted_speedup), number(cell.worst), number(cell.tokens_per_second),
               number(cell.tokens_per_step),
               cell.drafted > 0 ? fmt::format("{:.1f} %", 100 * cell.acceptance) : "-",
               cell.num_different);
  }
  fmt::print(
      "speed-up: geometric mean over prompts of the median over rounds, against plain decoding "
      "(none) of the same "
      "round;\nin brackets the 95 % bootstrap interval over prompts and rounds. worst: the lowest "
      "prompt's median. "
      "predicted:\ntokens/step over the cost of a step, out of T(n) measured at the group's "
      "context and the time "
      "spent drafting (-: nothing was drafted).\n");
}

}  // namespace tahmin::cli
