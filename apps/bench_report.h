// The table that `tahmin bench` prints: drafter by group, medians over rounds, geometric means over
// prompts.
#pragma once

#include <string>
#include <vector>

#include "engine/interleaved_bench.h"

namespace tahmin::cli {

struct PromptRuns {
  std::string id, group;
  std::vector<BenchRun> runs;
};

void PrintBenchReport(const std::vector<PromptRuns>& prompts);

}  // namespace tahmin::cli
