// What a run measured, as JSON, and the table that `tahmin bench` prints: drafter by group, medians
// over rounds, geometric means over prompts.
#pragma once

#include <string>
#include <vector>

#include "engine/interleaved_bench.h"
#include "nlohmann/json.hpp"

namespace tahmin::cli {

struct PromptRuns {
  std::string id, group;
  std::vector<BenchRun> runs;
};

nlohmann::json BenchRunToJson(const std::string& id, const std::string& group, const BenchRun& run);
void PrintBenchReport(const std::vector<PromptRuns>& prompts);

}  // namespace tahmin::cli
