#include "tahmin/metrics.h"

#include <cstddef>

namespace tahmin {

double GenerationStats::TokensPerSecond() const {
  if (generated_tokens == 0 || decode_ms <= 0) return 0.0;
  return 1000.0 * static_cast<double>(generated_tokens) / decode_ms;
}

double GenerationStats::AcceptanceRate() const {
  return drafted == 0 ? 0.0 : static_cast<double>(accepted) / static_cast<double>(drafted);
}

double GenerationStats::TokensPerStep() const {
  if (steps == 0) return 0.0;
  return static_cast<double>(accepted + steps - cut) / static_cast<double>(steps);
}

std::vector<double> GenerationStats::AcceptanceByDepth() const {
  std::vector<double> rates(tested_by_depth.size(), 0.0);
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const bool is_counted = i < accepted_by_depth.size() && tested_by_depth[i] > 0;
    if (is_counted) {
      rates[i] =
          static_cast<double>(accepted_by_depth[i]) / static_cast<double>(tested_by_depth[i]);
    }
  }
  return rates;
}

}  // namespace tahmin
