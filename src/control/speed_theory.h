// Expected gain of speculative decoding (Leviathan et al. 2211.17192, equation 1 and theorem 3.8),
// with a measured cost of verifying n rows in place of the paper's flat one.
#pragma once

#include <cstdint>
#include <vector>

namespace tahmin {

// T(n)/T(1) by number of rows, interpolated linearly between measured points; beyond the last point
// the last slope goes on. Empty: flat (1 for every n).
struct VerifyCostCurve {
  struct Point {
    int32_t rows;
    double cost;  // in units of one plain step
  };
  std::vector<Point> points;  // ascending rows, first one rows = 1
  double CostOf(int32_t rows) const;
};

// Tokens per step with i.i.d. acceptance a: (1 - a^(K+1)) / (1 - a); K + 1 when a = 1.
double ExpectedTokens(double acceptance, int32_t draft_max);
// With measured conditional acceptance by depth: 1 + sum over i of the product of the first i.
double ExpectedTokens(const std::vector<double>& acceptance_by_depth);

// ExpectedTokens / (draft_cost * K + v(K + 1)); draft_cost in units of one plain step.
double PredictedSpeedup(double acceptance, int32_t draft_max, double draft_cost,
                        const VerifyCostCurve& curve);

// For steps that draft more or less: tokens_per_step / (draft_cost + mean of v(1 + n)), where
// steps_by_drafted[n] steps submit n draft tokens and a step's drafting costs draft_cost in units
// of one plain step. 0 where there are no steps.
double PredictedSpeedupOfSteps(double tokens_per_step, const std::vector<int64_t>& steps_by_drafted,
                               double draft_cost, const VerifyCostCurve& curve);

// The K in [0, max_draft] with the largest PredictedSpeedup (0: plain is best; smallest K among
// equals).
int32_t BestDraftMax(double acceptance, double draft_cost, const VerifyCostCurve& curve,
                     int32_t max_draft = 256);

}  // namespace tahmin
