#include "engine/context_length.h"

#include "gtest/gtest.h"

namespace tahmin {
namespace {

TEST(ContextLength, WithoutScalingItIsTheTrainedOne) {
  ModelConfig config;
  config.trained_context = 2048;
  config.rope_scale_factor = 4.0f;  // of a scaling that is off
  const ContextLength length = ContextLengthOf(config);
  EXPECT_EQ(length.trained, 2048);
  EXPECT_EQ(length.usable, 2048);
}

TEST(ContextLength, LinearScalingStretchesTheTrainedOne) {
  ModelConfig config;
  config.trained_context = 2048;
  config.rope_scaling = RopeScaling::kLinear;
  config.rope_scale_factor = 4.0f;
  EXPECT_EQ(ContextLengthOf(config).trained, 2048);
  EXPECT_EQ(ContextLengthOf(config).usable, 8192);
}

TEST(ContextLength, AStretchedContextIsNotStretchedAgain) {
  ModelConfig config;
  config.trained_context = 131072;
  config.rope_scaling = RopeScaling::kYarn;
  config.rope_original_context = 32768;
  config.rope_scale_factor = 4.0f;
  EXPECT_EQ(ContextLengthOf(config).usable, 131072);
  config.trained_context = 32768;
  EXPECT_EQ(ContextLengthOf(config).usable, 131072);
}

}  // namespace
}  // namespace tahmin
