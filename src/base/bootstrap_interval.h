// How far a figure out of repeated measurements can be trusted: percentile bootstrap (Efron 1979).
#pragma once

#include <cstdint>
#include <vector>

namespace tahmin {

struct Interval {
  double low = 0, high = 0;
};

// Of positive values; 0 for none.
double GeometricMean(const std::vector<double>& values);

// samples[i]: the repeated measurements (> 0) of item i; none of them empty. The figure is the
// geometric mean over items of the median of an item's measurements; the interval holds 95 % of the
// values that it takes when items, and within them measurements, are drawn again with replacement.
// The draws are fixed by `key`, so the same measurements give the same interval. {0, 0} for no
// items; one single measurement gives an interval of no width: nothing is known of its spread.
Interval BootstrapInterval(const std::vector<std::vector<double>>& samples, uint64_t key = 0);

}  // namespace tahmin
