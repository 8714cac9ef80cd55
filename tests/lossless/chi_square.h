// Pearson's chi-square of counts against expected probabilities, for fixed-seed tests.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>

namespace tahmin {

struct ChiSquare {
  double statistic = 0;
  int32_t degrees_of_freedom = 0;

  // Standard deviations above the mean, by Wilson and Hilferty's cube-root approximation.
  double ZScore() const {
    const double k = degrees_of_freedom;
    const double spread = 2.0 / (9.0 * k);
    return (std::cbrt(statistic / k) - (1.0 - spread)) / std::sqrt(spread);
  }
};

// Cells that are expected fewer than five times are put together in one. Counts outside the
// expected cells make the statistic infinite.
template <typename Cell>
ChiSquare CompareCounts(const std::map<Cell, int64_t>& counts,
                        const std::map<Cell, double>& expected_probability) {
  int64_t total = 0, seen = 0;
  for (const auto& [cell, count] : counts) total += count;
  ChiSquare result;
  double rest_expected = 0, rest_count = 0;
  int32_t num_cells = 0;
  for (const auto& [cell, probability] : expected_probability) {
    const auto found = counts.find(cell);
    const int64_t count = found == counts.end() ? 0 : found->second;
    const double expected = probability * static_cast<double>(total);
    seen += count;
    if (expected < 5) {
      rest_expected += expected;
      rest_count += static_cast<double>(count);
      continue;
    }
    result.statistic += (count - expected) * (count - expected) / expected;
    ++num_cells;
  }
  if (rest_expected > 0) {
    result.statistic += (rest_count - rest_expected) * (rest_count - rest_expected) / rest_expected;
    ++num_cells;
  }
  if (seen != total) result.statistic = INFINITY;
  result.degrees_of_freedom = num_cells - 1;
  return result;
}

}  // namespace tahmin
