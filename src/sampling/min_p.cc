#include <cmath>
#include <limits>

#include "sampling/filters.h"

namespace tahmin {
namespace {

// p(x) >= min_p * p(best) on logits: x >= best + log(min_p). Rounded up to the next float that
// satisfies it, so the comparison of floats equals the comparison in double.
float LowestLogit(float best, float min_p) {
  const double bound = best + std::log(static_cast<double>(min_p));
  constexpr float kLowest = -std::numeric_limits<float>::max();
  if (bound <= kLowest) return kLowest;
  const float rounded = static_cast<float>(bound);
  return rounded < bound ? std::nextafter(rounded, best) : rounded;
}

}  // namespace

void SelectMinP(std::span<const float> row, const RowScan& scan, float min_p,
                std::vector<Candidate>& candidates) {
  candidates.clear();
  CollectBetween(row, scan, LowestLogit(scan.max, min_p), std::numeric_limits<float>::infinity(),
                 candidates);
  RankFrom(0, candidates);
}

void KeepMinP(float min_p, std::vector<Candidate>& candidates) {
  if (candidates.empty()) return;
  const float lowest = LowestLogit(candidates.front().logit, min_p);
  while (candidates.back().logit < lowest) candidates.pop_back();
}

}  // namespace tahmin
