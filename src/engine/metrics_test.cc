#include "tahmin/metrics.h"

#include <cmath>

#include "gtest/gtest.h"

namespace tahmin {
namespace {

TEST(GenerationStats, NothingDraftedGivesZeroAndNoNanB41) {
  const GenerationStats nothing;
  EXPECT_EQ(nothing.TokensPerSecond(), 0.0);
  EXPECT_EQ(nothing.AcceptanceRate(), 0.0);
  EXPECT_EQ(nothing.TokensPerStep(), 0.0);
  EXPECT_TRUE(nothing.AcceptanceByDepth().empty());
}

TEST(GenerationStats, RatesAreWhatTheyAreCalled) {
  GenerationStats stats;
  stats.generated_tokens = 8;
  stats.steps = 3;
  stats.drafted = 10;
  stats.tested = 7;
  stats.accepted = 5;
  stats.cut = 1;
  stats.decode_ms = 400;
  stats.tested_by_depth = {3, 2, 0};
  stats.accepted_by_depth = {3, 1, 0};
  EXPECT_DOUBLE_EQ(stats.TokensPerSecond(), 20.0);
  EXPECT_DOUBLE_EQ(stats.AcceptanceRate(), 0.5);
  // 5 accepted + 3 of the target's own - 1 cut, in three steps: the cut token is not counted.
  EXPECT_DOUBLE_EQ(stats.TokensPerStep(), 7.0 / 3.0);
  const std::vector<double> expected = {1.0, 0.5, 0.0};
  EXPECT_EQ(stats.AcceptanceByDepth(), expected);
}

}  // namespace
}  // namespace tahmin
