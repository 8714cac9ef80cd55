#include <gtest/gtest.h>

#include "control/controller.h"

namespace tahmin {
namespace {

TEST(FixedController, PlansTheSameChainWhateverHappened) {
  const auto controller = MakeFixedController(5);
  for (int32_t step = 0; step < 3; ++step) {
    const DraftBudget budget = controller->Plan();
    EXPECT_EQ(budget.max_tokens, 5);
    EXPECT_EQ(budget.max_depth, 5);
    EXPECT_EQ(budget.max_width, 1);
    StepStats stats;
    stats.num_drafted = 5;
    stats.num_accepted = step;
    controller->Update(stats);
  }
}

TEST(FixedController, NothingToDraftMeansPlainDecoding) {
  EXPECT_EQ(MakeFixedController(0)->Plan().max_tokens, 0);
  EXPECT_EQ(MakeFixedController(-3)->Plan().max_tokens, 0);
}

}  // namespace
}  // namespace tahmin
