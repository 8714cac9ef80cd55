#include "control/controller.h"
#include "gtest/gtest.h"

namespace tahmin {
namespace {

TEST(FixedController, SameBudgetEveryStep) {
  const auto controller = MakeFixedController(5, {1, 3});
  controller->BeginRequest({});
  for (int32_t step = 0; step < 3; ++step) {
    controller->BeginStep({});
    const DraftBudget first = controller->BudgetFor(0, {}), second = controller->BudgetFor(1, {});
    EXPECT_EQ(first.max_tokens, 5);
    EXPECT_EQ(first.max_depth, 5);
    EXPECT_EQ(first.max_width, 1);
    EXPECT_EQ(second.max_tokens, 5);
    EXPECT_EQ(second.max_width, 3);
    EXPECT_EQ(first.min_survival, 0);  // whatever it drew: under the rejection rule it must
    StepStats stats;
    stats.num_drafted = 5;
    controller->Update(stats);
  }
}

TEST(FixedController, ZeroIsPlainDecoding) {
  EXPECT_EQ(MakeFixedController(0, {1})->BudgetFor(0, {}).max_tokens, 0);
  EXPECT_EQ(MakeFixedController(-3, {1})->BudgetFor(0, {}).max_tokens, 0);
}

TEST(FixedController, OneDraftersTreeIsSubmittedWhole) {
  DraftTree chain;
  for (int32_t i = 0; i < 4; ++i) {
    chain.nodes.push_back({.token = i, .parent = i - 1, .confidence = 0.01f});
  }
  const auto controller = MakeFixedController(4, {1});
  EXPECT_EQ(controller->Select(chain, 10), std::vector<bool>(4, true));
}

TEST(FixedController, SeveralDraftersShareTheTokens) {
  // Two chains of three under the root; the second one is likelier at first, then hopeless.
  DraftTree merged;
  const float first[] = {0.5f, 0.9f, 0.9f}, second[] = {0.8f, 0.1f, 0.1f};
  for (int32_t i = 0; i < 3; ++i) {
    merged.nodes.push_back({.token = i, .parent = i - 1, .confidence = first[i]});
  }
  for (int32_t i = 0; i < 3; ++i) {
    merged.nodes.push_back(
        {.token = 10 + i, .parent = i == 0 ? kRoot : 2 + i, .confidence = second[i]});
  }
  const std::vector<bool> expected = {true, true, true, true, false, false};
  EXPECT_EQ(MakeFixedController(4, {1, 1})->Select(merged, 10), expected);
  const std::vector<bool> two = {true, false, false, true, false, false};
  EXPECT_EQ(MakeFixedController(4, {1, 1})->Select(merged, 2), two);
}

}  // namespace
}  // namespace tahmin
