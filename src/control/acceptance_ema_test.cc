#include "control/acceptance_ema.h"

#include "gtest/gtest.h"

namespace tahmin {
namespace {

TEST(AcceptanceEma, StartsFromTheConfidence) {
  const AcceptanceEma ema;
  EXPECT_NEAR(ema.Acceptance(1, 0.55f), 0.55f, 1e-6f);
  EXPECT_NEAR(ema.Acceptance(9, 0.15f), 0.15f, 1e-6f);
}

TEST(AcceptanceEma, MovesToTheCounts) {
  AcceptanceEma ema;
  // A drafter that is far too sure of itself: 0.95 means one in four.
  for (int32_t i = 0; i < 400; ++i) {
    ema.Add(1, 0.95f, i % 4 == 0);
    ema.AddChoice(1, i % 4 == 0);
  }
  EXPECT_NEAR(ema.Acceptance(1, 0.95f), 0.25f, 0.05f);
  EXPECT_NEAR(ema.Scale().Of(0.95f), 0.25f, 0.05f);
  EXPECT_NEAR(ema.AtDepth(1, 0.7), 0.25, 0.05);
  // Other confidences are other bins.
  EXPECT_NEAR(ema.Acceptance(1, 0.45f), 0.45f, 1e-6f);
}

TEST(AcceptanceEma, DepthsDiffer) {
  AcceptanceEma ema;
  for (int32_t i = 0; i < 200; ++i) {
    ema.Add(1, 0.95f, true);
    ema.AddChoice(1, true);
    ema.Add(5, 0.95f, i % 2 == 0);
    ema.AddChoice(5, i % 2 == 0);
  }
  EXPECT_GT(ema.Acceptance(1, 0.95f), 0.9f);
  EXPECT_LT(ema.Acceptance(5, 0.95f), 0.65f);
  EXPECT_GT(ema.AtDepth(1, 0.7), 0.9);
  EXPECT_LT(ema.AtDepth(5, 0.7), 0.6);
}

// Second choices are nodes like others, but no part of the chain.
TEST(AcceptanceEma, NodesAreNotChoices) {
  AcceptanceEma ema;
  for (int32_t i = 0; i < 200; ++i) ema.Add(1, 0.15f, false);
  EXPECT_LT(ema.Acceptance(1, 0.15f), 0.05f);
  EXPECT_DOUBLE_EQ(ema.AtDepth(1, 0.7), 0.7);
  EXPECT_EQ(ema.NumTested(), 0);
}

TEST(AcceptanceEma, ForgetsOldText) {
  AcceptanceEma ema;
  for (int32_t i = 0; i < 500; ++i) ema.Add(1, 0.85f, true);
  for (int32_t i = 0; i < 100; ++i) ema.Add(1, 0.85f, false);
  EXPECT_LT(ema.Acceptance(1, 0.85f), 0.2f);
}

TEST(AcceptanceEma, ForgettingGivesThePriorItsWeightBack) {
  AcceptanceEma ema;
  for (int32_t i = 0; i < 500; ++i) ema.Add(1, 0.85f, false);
  const float before = ema.Acceptance(1, 0.85f);
  ema.Forget(0.9, 0.9);
  EXPECT_GT(ema.Acceptance(1, 0.85f), before + 0.05f);
  ema.Forget(1, 1);
  EXPECT_NEAR(ema.Acceptance(1, 0.85f), 0.85f, 1e-6f);
}

}  // namespace
}  // namespace tahmin
