// What a bench measured, for scripts (one JSON line a run) and for the terminal (drafter by group).
#pragma once

#include <string>
#include <vector>

#include "measure/bench_summary.h"
#include "nlohmann/json.hpp"

namespace tahmin::cli {

nlohmann::json BenchRunToJson(const std::string& id, const std::string& group, const BenchRun& run);

void PrintBenchReport(const std::vector<BenchCell>& cells);

// "1.43 (1.31 - 1.55)"; "-" where no time counts.
std::string FormatSpeedup(const BenchCell& cell);

}  // namespace tahmin::cli
