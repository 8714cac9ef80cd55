#include "control/speed_theory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tahmin {
namespace {

TEST(SpeedTheory, ExpectedTokensClosedForm) {
  EXPECT_NEAR(ExpectedTokens(0.7, 5), 2.94, 0.005);
  for (const double a : {0.0, 0.3, 0.7, 0.999}) {
    for (const int32_t k : {0, 1, 4, 15}) {
      EXPECT_NEAR(ExpectedTokens(a, k), (1 - std::pow(a, k + 1)) / (1 - a), 1e-12 * (k + 1));
    }
  }
  EXPECT_EQ(ExpectedTokens(1.0, 7), 8);
  EXPECT_EQ(ExpectedTokens(0.5, 0), 1);
}

TEST(SpeedTheory, ExpectedTokensByDepth) {
  EXPECT_EQ(ExpectedTokens(std::vector<double>{}), 1);
  EXPECT_NEAR(ExpectedTokens({0.8, 0.5, 0.25}), 1 + 0.8 + 0.4 + 0.1, 1e-15);
  EXPECT_NEAR(ExpectedTokens({0.7, 0.7, 0.7, 0.7, 0.7}), ExpectedTokens(0.7, 5), 1e-15);
}

TEST(SpeedTheory, ExpectedTokensMatchesSimulation) {
  std::mt19937_64 random(1);
  std::bernoulli_distribution is_accepted(0.7);
  constexpr int kSteps = 200000;
  double sum = 0, sum_of_squares = 0;
  for (int step = 0; step < kSteps; ++step) {
    int tokens = 1;
    while (tokens <= 5 && is_accepted(random)) ++tokens;
    sum += tokens;
    sum_of_squares += tokens * tokens;
  }
  const double mean = sum / kSteps;
  const double standard_error = std::sqrt((sum_of_squares / kSteps - mean * mean) / kSteps);
  EXPECT_NEAR(mean, ExpectedTokens(0.7, 5), 3 * standard_error);
}

TEST(VerifyCostCurve, InterpolatesAndGoesOnWithTheLastSlope) {
  const VerifyCostCurve curve = {{{1, 1.0}, {2, 1.1}, {4, 1.5}, {8, 3.1}}};
  EXPECT_EQ(curve.CostOf(1), 1.0);
  EXPECT_EQ(curve.CostOf(2), 1.1);
  EXPECT_NEAR(curve.CostOf(3), 1.3, 1e-12);
  EXPECT_NEAR(curve.CostOf(6), 2.3, 1e-12);
  EXPECT_NEAR(curve.CostOf(10), 3.9, 1e-12);
  EXPECT_EQ(VerifyCostCurve().CostOf(9), 1);
  // A last segment that falls (noise) is not carried on: more rows never cost less.
  const VerifyCostCurve falling{{{1, 1.0}, {4, 3.0}, {8, 1.0}}};
  EXPECT_EQ(falling.CostOf(8), 1.0);
  EXPECT_EQ(falling.CostOf(33), 1.0);
  EXPECT_EQ((VerifyCostCurve{{{1, 1.0}}}).CostOf(9), 1);
}

TEST(SpeedTheory, SpeedupOfStepsThatDraftMoreOrLess) {
  const VerifyCostCurve curve = {{{1, 1.0}, {2, 1.1}, {6, 1.5}}};
  // All steps alike: the formula of a fixed K.
  EXPECT_NEAR(PredictedSpeedupOfSteps(ExpectedTokens(0.7, 5), {0, 0, 0, 0, 0, 40}, 5 * 0.28, curve),
              PredictedSpeedup(0.7, 5, 0.28, curve), 1e-12);
  // Half of the steps plain, half with one draft token that is always taken and costs nothing.
  EXPECT_NEAR(PredictedSpeedupOfSteps(1.5, {10, 10}, 0, curve), 1.5 / 1.05, 1e-12);
  EXPECT_EQ(PredictedSpeedupOfSteps(1.5, {}, 0, curve), 0);
  EXPECT_EQ(PredictedSpeedupOfSteps(1.5, {0, 0}, 0, curve), 0);
}

TEST(SpeedTheory, SpeedupOfTheFlatCurveIsThePapers) {
  EXPECT_NEAR(PredictedSpeedup(0.7, 5, 0.28, {}), ExpectedTokens(0.7, 5) / (0.28 * 5 + 1), 1e-15);
  EXPECT_EQ(PredictedSpeedup(0.7, 0, 0.28, {}), 1);
}

TEST(SpeedTheory, BestDraftMaxIsTheBestOfAScan) {
  const VerifyCostCurve steep = {{{1, 1.0}, {2, 1.1}, {4, 1.6}, {8, 3.2}}};
  for (const double acceptance : {0.0, 0.2, 0.5, 0.8, 0.95}) {
    for (const double cost : {0.0, 0.1, 0.28, 0.6}) {
      const int32_t best = BestDraftMax(acceptance, cost, steep, 16);
      const double best_speedup = PredictedSpeedup(acceptance, best, cost, steep);
      for (int32_t k = 0; k <= 16; ++k) {
        const double speedup = PredictedSpeedup(acceptance, k, cost, steep);
        EXPECT_TRUE(speedup < best_speedup || (speedup == best_speedup && k >= best));
      }
    }
  }
}

TEST(SpeedTheory, OneDraftTokenPaysOnAFlatCurveIfAcceptanceExceedsItsCost) {
  EXPECT_EQ(BestDraftMax(0.3, 0.31, {}), 0);
  EXPECT_GE(BestDraftMax(0.3, 0.29, {}), 1);
  EXPECT_EQ(BestDraftMax(0.0, 0.0, {}), 0);  // equal at every K: the smallest
  EXPECT_EQ(BestDraftMax(1.0, 0.0, {}), 256);
}

}  // namespace
}  // namespace tahmin
