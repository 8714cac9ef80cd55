#include "control/cost_model.h"

#include "gtest/gtest.h"

namespace tahmin {
namespace {

TEST(VerifyCost, GoesThroughItsPointsAndOn) {
  const VerifyCost cost({{1, 80}, {5, 100}});
  EXPECT_DOUBLE_EQ(cost.Ms(1), 80);
  EXPECT_DOUBLE_EQ(cost.Ms(3), 90);
  EXPECT_DOUBLE_EQ(cost.Ms(5), 100);
  EXPECT_NEAR(cost.Ms(9), 120, 1e-9);
  EXPECT_NEAR(cost.Ms(100), 80 + 99 * 5, 1e-6);
}

TEST(VerifyCost, FollowsTheDriftOfTheMachine) {
  VerifyCost cost({{1, 80}, {5, 100}});
  for (int32_t i = 0; i < 200; ++i) cost.Add(1, 120);
  EXPECT_NEAR(cost.Ms(1), 120, 2);
  EXPECT_GT(cost.Ms(9), 130);  // rows that were not seen drift along
}

TEST(VerifyCost, LearnsWhatEachRowCountCosts) {
  VerifyCost cost({{1, 80}, {5, 100}});
  for (int32_t i = 0; i < 300; ++i) {
    cost.Add(1, 80);
    cost.Add(5, 160);
    cost.Add(9, 240);
  }
  EXPECT_NEAR(cost.Ms(1), 80, 4);
  EXPECT_NEAR(cost.Ms(5), 160, 8);
  EXPECT_NEAR(cost.Ms(9), 240, 12);
}

TEST(VerifyCost, OneSlowPassChangesLittle) {
  VerifyCost cost({{1, 80}, {5, 100}});
  for (int32_t i = 0; i < 50; ++i) cost.Add(1, 80);
  cost.Add(1, 4000);
  EXPECT_LT(cost.Ms(1), 90);
}

TEST(VerifyCost, NeverFallsWithRows) {
  VerifyCost cost({{1, 80}, {5, 100}});
  for (int32_t i = 0; i < 50; ++i) cost.Add(3, 60);
  for (int32_t rows = 1; rows < VerifyCost::kMaxRows; ++rows) {
    EXPECT_LE(cost.Ms(rows), cost.Ms(rows + 1)) << rows;
  }
}

TEST(VerifyCost, WithoutPointsTheFirstPassGivesTheUnit) {
  VerifyCost cost({});
  cost.Add(1, 55);
  EXPECT_NEAR(cost.Ms(1), 55, 1e-6);
}

TEST(VerifyCost, ItsPointsMakeTheSameModel) {
  VerifyCost cost({{1, 80}, {5, 100}});
  for (int32_t i = 0; i < 20; ++i) cost.Add(4, 130);
  const VerifyCost again(cost.Points());
  for (int32_t rows : {1, 2, 4, 8, 9}) EXPECT_NEAR(again.Ms(rows), cost.Ms(rows), 1e-9) << rows;
}

}  // namespace
}  // namespace tahmin
