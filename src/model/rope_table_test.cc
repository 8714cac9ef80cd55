#include "model/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace tahmin {
namespace {

ModelConfig PlainConfig() {
  ModelConfig config;
  config.head_dim = 8;
  config.rotary_dimensions = 8;
  config.rope_base = 10000.0f;
  config.trained_context = config.rope_original_context = 2048;
  return config;
}

TEST(RopeFrequencies, AnglesAreTheGeometricSeries) {
  const RopeFrequencies rope(PlainConfig(), {});
  ASSERT_EQ(rope.angles().size(), 4u);
  const double expected[] = {1.0, 0.1, 0.01, 0.001};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(rope.angles()[i], expected[i], 1e-15);
}

TEST(RopeFrequencies, TableIsCosineAndSineOfPositionTimesAngle) {
  const RopeFrequencies rope(PlainConfig(), {});
  float cosines[4], sines[4];
  rope.Fill(123457, cosines, sines);
  // The reduced angle of a far position survives only in double.
  EXPECT_EQ(cosines[0], static_cast<float>(std::cos(123457.0)));
  EXPECT_EQ(sines[0], static_cast<float>(std::sin(123457.0)));
  EXPECT_NEAR(cosines[2], std::cos(1234.57), 1e-6);
  rope.Fill(0, cosines, sines);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(cosines[i], 1.0f);
    EXPECT_EQ(sines[i], 0.0f);
  }
}

TEST(RopeFrequencies, PartialRotationUsesTheRotaryDimensions) {
  ModelConfig config = PlainConfig();
  config.rotary_dimensions = 4;
  const RopeFrequencies rope(config, {});
  ASSERT_EQ(rope.angles().size(), 2u);
  EXPECT_NEAR(rope.angles()[1], 0.01, 1e-15);
}

TEST(RopeFrequencies, LinearScalingDividesPositions) {
  ModelConfig config = PlainConfig();
  config.rope_scaling = RopeScaling::kLinear;
  config.rope_scale_factor = 4.0f;
  const RopeFrequencies scaled(config, {});
  const RopeFrequencies plain(PlainConfig(), {});
  float cosines[4], sines[4], plain_cosines[4], plain_sines[4];
  scaled.Fill(400, cosines, sines);
  plain.Fill(100, plain_cosines, plain_sines);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(cosines[i], plain_cosines[i], 1e-6);
}

TEST(RopeFrequencies, FactorsDivideTheirFrequency) {
  const float factors[] = {1.0f, 2.0f, 8.0f, 32.0f};
  const RopeFrequencies rope(PlainConfig(), factors);
  const double expected[] = {1.0, 0.05, 0.01 / 8, 0.001 / 32};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(rope.angles()[i], expected[i], 1e-15);
}

// The bounds of the ramp by hand: with 64 dimensions, base 10000 and a context of 2048, 32 turns
// are made at pair 64 ln(2048 / (64 pi)) / (2 ln 10000) = 8.06 and one turn at pair 20.10.
TEST(RopeFrequencies, YarnInterpolatesSlowPairsOnly) {
  ModelConfig config = PlainConfig();
  config.head_dim = config.rotary_dimensions = 64;
  config.rope_scaling = RopeScaling::kYarn;
  config.rope_scale_factor = 4.0f;
  config.yarn_attention_factor = 0.1f * std::log(4.0f) + 1.0f;
  const RopeFrequencies rope(config, {});
  for (int i = 0; i < 32; ++i) {
    const double plain = std::pow(10000.0, -2.0 * i / 64.0);
    const double ramp = std::min(1.0, std::max(0.0, (i - 8.0) / (21.0 - 8.0)));
    EXPECT_NEAR(rope.angles()[i], plain / 4.0 * ramp + plain * (1.0 - ramp), plain * 1e-12) << i;
  }
  float cosines[32], sines[32];
  rope.Fill(0, cosines, sines);
  EXPECT_NEAR(cosines[0], 1.13862943611, 1e-6);
  EXPECT_NEAR(cosines[31], 1.13862943611, 1e-6);
}

TEST(RopeFrequencies, YarnWithoutExtrapolationIsLinear) {
  ModelConfig config = PlainConfig();
  config.rope_scaling = RopeScaling::kYarn;
  config.rope_scale_factor = 4.0f;
  config.yarn_extrapolation_factor = 0.0f;
  const RopeFrequencies rope(config, {});
  EXPECT_NEAR(rope.angles()[0], 0.25, 1e-15);
  EXPECT_NEAR(rope.angles()[3], 0.00025, 1e-15);
}

}  // namespace
}  // namespace tahmin
