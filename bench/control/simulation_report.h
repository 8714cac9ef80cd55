// What simulations came to: a table with one line a setting, or JSON lines.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/control/simulation.h"

namespace tahmin::bench {

struct SimulationSummary {
  double speedup = 0;                      // over plain decoding: geometric mean over texts
  double low = 0, worst = 0;               // 5th percentile; the least
  std::string worst_id;                    // whose that is
  double tokens_per_step = 0;              // over all texts together
  std::map<std::string, double> by_group;  // geometric means
};

// At least one text.
SimulationSummary Summarize(const SimulatedSetting& simulated);

struct ReportParts {
  bool texts = false;        // a line for each
  bool calibration = false;  // predicted survival against accepted share, by drafter
};

// The table, with its end of line; behind it, by setting, the parts that are asked for.
std::string ToTable(const std::vector<SimulatedSetting>& settings, const ReportParts& parts);

// One object a setting and line.
std::string ToJsonLines(const std::vector<SimulatedSetting>& settings, const ReportParts& parts);

}  // namespace tahmin::bench
