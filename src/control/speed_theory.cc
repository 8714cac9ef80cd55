#include "control/speed_theory.h"

#include <algorithm>
#include <cstddef>

namespace tahmin {

double VerifyCostCurve::CostOf(int32_t rows) const {
  if (points.empty()) return 1.0;
  if (points.size() == 1 || rows <= points.front().rows) return points.front().cost;
  // The segment that holds `rows`, or the last one.
  std::size_t right = 1;
  while (right + 1 < points.size() && points[right].rows < rows) ++right;
  const Point& a = points[right - 1];
  const Point& b = points[right];
  const double slope = (b.cost - a.cost) / (b.rows - a.rows);
  // Beyond what was measured more rows never cost less: a noisy end must not promise a free lunch.
  if (rows > b.rows) return b.cost + std::max(0.0, slope) * (rows - b.rows);
  return a.cost + slope * (rows - a.rows);
}

double ExpectedTokens(double acceptance, int32_t draft_max) {
  // The closed form as its sum 1 + a + ... + a^K: exact also at a = 1, no cancellation near it.
  double expected = 1;
  double power = 1;
  for (int32_t i = 0; i < draft_max; ++i) {
    power *= acceptance;
    expected += power;
  }
  return expected;
}

double ExpectedTokens(const std::vector<double>& acceptance_by_depth) {
  double expected = 1;
  double reached = 1;
  for (const double acceptance : acceptance_by_depth) {
    reached *= acceptance;
    expected += reached;
  }
  return expected;
}

double PredictedSpeedup(double acceptance, int32_t draft_max, double draft_cost,
                        const VerifyCostCurve& curve) {
  return ExpectedTokens(acceptance, draft_max) /
         (draft_cost * draft_max + curve.CostOf(draft_max + 1));
}

double PredictedSpeedupOfSteps(double tokens_per_step, const std::vector<int64_t>& steps_by_drafted,
                               double draft_cost, const VerifyCostCurve& curve) {
  int64_t num_steps = 0;
  double verify_cost = 0;
  for (std::size_t n = 0; n < steps_by_drafted.size(); ++n) {
    num_steps += steps_by_drafted[n];
    verify_cost +=
        static_cast<double>(steps_by_drafted[n]) * curve.CostOf(static_cast<int32_t>(n) + 1);
  }
  if (num_steps == 0) return 0;
  return tokens_per_step / (draft_cost + verify_cost / static_cast<double>(num_steps));
}

int32_t BestDraftMax(double acceptance, double draft_cost, const VerifyCostCurve& curve,
                     int32_t max_draft) {
  int32_t best = 0;
  double best_speedup = PredictedSpeedup(acceptance, 0, draft_cost, curve);
  for (int32_t draft_max = 1; draft_max <= max_draft; ++draft_max) {
    const double speedup = PredictedSpeedup(acceptance, draft_max, draft_cost, curve);
    if (speedup <= best_speedup) continue;
    best = draft_max;
    best_speedup = speedup;
  }
  return best;
}

}  // namespace tahmin
