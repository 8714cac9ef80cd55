#include "control/cost_model.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tahmin {
namespace {

constexpr double kDriftRate = 0.08;  // of the common factor, a pass
constexpr double kShapeRate = 0.05;  // of one row count, in the long run
constexpr double kOutlier = 1.6;     // a pass is believed to be at most so far off
constexpr double kSpread = 1.5;      // rows over which a correction fades by e

double Interpolate(const std::vector<RowCost>& points, int32_t rows) {
  if (points.empty()) return 1.0 + 0.1 * rows;
  if (points.size() == 1) return points[0].ms * (1.0 + 0.1 * (rows - points[0].rows));
  size_t i = 1;
  while (i + 1 < points.size() && points[i].rows < rows) ++i;
  const RowCost& low = points[i - 1];
  const RowCost& high = points[i];
  const double slope = (high.ms - low.ms) / (high.rows - low.rows);
  return std::max(low.ms + std::max(0.0, slope) * (rows - low.rows), 1e-6);
}

}  // namespace

VerifyCost::VerifyCost(const std::vector<RowCost>& points) : is_measured_(!points.empty()) {
  for (int32_t rows = 1; rows <= kMaxRows; ++rows) shape_[rows - 1] = Interpolate(points, rows);
}

double VerifyCost::Ms(int32_t rows) const {
  const int32_t within = std::clamp(rows, 1, kMaxRows);
  double most = 0;
  for (int32_t i = 0; i < within; ++i) most = std::max(most, shape_[i]);
  if (rows > kMaxRows) {
    const double slope = (shape_[kMaxRows - 1] - shape_[kMaxRows / 2 - 1]) / (kMaxRows / 2);
    most += std::max(0.0, slope) * (rows - kMaxRows);
  }
  return factor_ * most;
}

void VerifyCost::Add(int32_t rows, double ms) {
  TAHMIN_CHECK(rows >= 1);
  if (rows > kMaxRows || !(ms > 0)) return;
  if (!is_measured_) {
    factor_ = ms / shape_[rows - 1];
    is_measured_ = true;
  }
  const double error = std::clamp(ms / (factor_ * shape_[rows - 1]), 1 / kOutlier, kOutlier);
  // New row counts learn their own share quickly, familiar ones follow the machine.
  const double own_rate = std::max(kShapeRate, 0.5 / (1 + seen_[rows - 1]));
  factor_ *= std::pow(error, kDriftRate);
  for (int32_t i = 0; i < kMaxRows; ++i) {
    const double closeness = std::exp(-std::abs(i - (rows - 1)) / kSpread);
    if (closeness < 0.01) continue;
    const double trust = i == rows - 1 ? 1 : closeness / (1 + seen_[i]);
    shape_[i] *= std::pow(error, own_rate * trust);
    if (i == rows - 1) seen_[i] += 1;
  }
}

std::vector<RowCost> VerifyCost::Points() const {
  std::vector<RowCost> points;
  for (int32_t rows = 1; rows <= kMaxRows; ++rows) {
    const bool is_marked = rows <= 9 || rows % 8 == 1 || rows == kMaxRows;
    if (is_marked) points.push_back({rows, Ms(rows)});
  }
  return points;
}

}  // namespace tahmin
