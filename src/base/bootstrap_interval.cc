#include "base/bootstrap_interval.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/median.h"
#include "base/philox.h"

namespace tahmin {

namespace {

constexpr int kResamples = 2000;

// Integers below a bound, in the order of their counter.
class Draws {
 public:
  Draws(uint64_t key, uint64_t resample) : key_(key), resample_(resample) {}
  size_t Below(size_t bound) {
    const PhiloxCounter counter = MakeCounter(DrawPurpose::kToken, num_drawn_++, resample_);
    return static_cast<size_t>(UniformOpen(Philox4x32(key_, counter)[0]) *
                               static_cast<double>(bound));
  }

 private:
  uint64_t key_, resample_;
  uint32_t num_drawn_ = 0;
};

}  // namespace

double GeometricMean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

Interval BootstrapInterval(const std::vector<std::vector<double>>& samples, uint64_t key) {
  if (samples.empty()) return {};
  std::vector<double> figures(kResamples);
  std::vector<double> medians(samples.size());
  std::vector<double> again;
  for (int resample = 0; resample < kResamples; ++resample) {
    Draws draws(key, static_cast<uint64_t>(resample));
    for (double& median : medians) {
      const std::vector<double>& measured = samples[draws.Below(samples.size())];
      again.resize(measured.size());
      for (double& value : again) value = measured[draws.Below(measured.size())];
      median = Median(again);
    }
    figures[resample] = GeometricMean(medians);
  }
  std::sort(figures.begin(), figures.end());
  return {figures[kResamples * 25 / 1000], figures[kResamples * 975 / 1000 - 1]};
}

}  // namespace tahmin
