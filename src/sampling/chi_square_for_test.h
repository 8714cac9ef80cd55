// Pearson's chi-square test, for tests only: written here so that no code under test judges itself.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

namespace tahmin {

// P(X >= x) of a chi-square variable, by the series or the continued fraction (Lentz) of the
// regularised incomplete gamma function with a = degrees / 2.
inline double ChiSquareTail(double x, double degrees) {
  const double a = degrees / 2;
  const double z = x / 2;
  if (z <= 0) return 1;
  const double scale = std::exp(a * std::log(z) - z - std::lgamma(a));
  if (z < a + 1) {
    double term = 1 / a;
    double sum = term;
    for (int n = 1; n < 10000 && term > sum * 1e-16; ++n) {
      term *= z / (a + n);
      sum += term;
    }
    return 1 - scale * sum;
  }
  double b = z + 1 - a;
  double c = 1e300;
  double d = 1 / b;
  double fraction = d;
  for (int n = 1; n < 10000; ++n) {
    const double factor = -n * (n - a);
    b += 2;
    d = 1 / (factor * d + b);
    c = b + factor / c;
    fraction *= c * d;
    if (std::abs(c * d - 1) < 1e-15) break;
  }
  return scale * fraction;
}

// The p-value of counts against probabilities. Cells that expect fewer than 5 are pooled; a count
// in a cell of probability 0 gives 0.
inline double ChiSquarePValue(const std::vector<int64_t>& counts,
                              const std::vector<double>& probabilities) {
  int64_t total = 0;
  for (const int64_t count : counts) total += count;
  double statistic = 0, pooled_expected = 0, pooled_count = 0;
  int num_cells = 0;
  const auto add_cell = [&](double count, double expected) {
    statistic += (count - expected) * (count - expected) / expected;
    ++num_cells;
  };
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = probabilities[i] * static_cast<double>(total);
    if (expected == 0 && counts[i] > 0) return 0;
    if (expected >= 5) {
      add_cell(static_cast<double>(counts[i]), expected);
    } else {
      pooled_expected += expected;
      pooled_count += static_cast<double>(counts[i]);
    }
  }
  if (pooled_expected > 0) add_cell(pooled_count, pooled_expected);
  return num_cells < 2 ? 1 : ChiSquareTail(statistic, num_cells - 1);
}

// The same by name of the cell. A count outside the expected cells gives 0.
template <typename Cell>
double PValueOfCounts(const std::map<Cell, int64_t>& counts,
                      const std::map<Cell, double>& probability_of) {
  std::vector<int64_t> ordered;
  std::vector<double> probabilities;
  for (const auto& [cell, probability] : probability_of) {
    const auto found = counts.find(cell);
    ordered.push_back(found == counts.end() ? 0 : found->second);
    probabilities.push_back(probability);
  }
  for (const auto& [cell, count] : counts) {
    if (count > 0 && !probability_of.contains(cell)) return 0;
  }
  return ChiSquarePValue(ordered, probabilities);
}

}  // namespace tahmin
