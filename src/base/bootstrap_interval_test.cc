#include "base/bootstrap_interval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace tahmin {
namespace {

TEST(GeometricMean, IsTheRootOfTheProduct) {
  EXPECT_EQ(GeometricMean({}), 0);
  EXPECT_NEAR(GeometricMean({2, 8}), 4, 1e-12);
  EXPECT_NEAR(GeometricMean({1.5}), 1.5, 1e-12);
}

TEST(BootstrapInterval, OfNothingAndOfOneMeasurement) {
  EXPECT_EQ(BootstrapInterval({}).high, 0);
  const Interval interval = BootstrapInterval({{1.5}});
  EXPECT_NEAR(interval.low, 1.5, 1e-12);
  EXPECT_NEAR(interval.high, 1.5, 1e-12);
}

TEST(BootstrapInterval, SameMeasurementsSameIntervalOtherKeyNearlyTheSame) {
  const std::vector<std::vector<double>> samples = {
      {1.0, 1.1, 1.3}, {2.0, 1.8, 2.1}, {0.9, 0.8, 1.0}, {1.4, 1.5, 1.2}};
  const Interval first = BootstrapInterval(samples, 1);
  EXPECT_EQ(first.low, BootstrapInterval(samples, 1).low);
  EXPECT_EQ(first.high, BootstrapInterval(samples, 1).high);
  EXPECT_NEAR(first.low, BootstrapInterval(samples, 2).low, 0.05);
  EXPECT_LT(first.low, 1.3);
  EXPECT_GT(first.high, 1.3);
}

// What an interval of 95 % is for: it holds the true figure in about 95 of 100 experiments.
TEST(BootstrapInterval, HoldsTheTruthAsOftenAsItSays) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> of_prompt(std::log(1.4), 0.3), of_round(0, 0.05);
  constexpr int kExperiments = 100;
  int num_held = 0;
  for (int experiment = 0; experiment < kExperiments; ++experiment) {
    std::vector<std::vector<double>> samples(30);
    for (auto& rounds : samples) {
      const double prompt = of_prompt(random);
      for (int round = 0; round < 3; ++round) rounds.push_back(std::exp(prompt + of_round(random)));
    }
    const Interval interval = BootstrapInterval(samples, experiment);
    num_held += interval.low <= 1.4 && 1.4 <= interval.high ? 1 : 0;
  }
  EXPECT_GE(num_held, 87);
  EXPECT_LE(num_held, 99);
}

}  // namespace
}  // namespace tahmin
