// The report of `tahmin bench --report FILE`: one HTML page with its charts inside, no scripts,
// nothing fetched.
#pragma once

#include <string>
#include <vector>

#include "measure/bench_summary.h"

namespace tahmin::cli {

struct BenchHeading {
  std::string target, draft;  // file names; draft may be empty
  std::string isa;
  int32_t num_threads = 0, rounds = 0, max_tokens = 0;
  float temperature = 0;
};

std::string BenchPage(const BenchHeading& heading, const std::vector<BenchCell>& cells,
                      const GroupCurves& curves);

}  // namespace tahmin::cli
