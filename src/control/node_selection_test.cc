#include "control/node_selection.h"

#include "gtest/gtest.h"

namespace tahmin {
namespace {

// root -> 0 (0.5) -> 1 (0.9), root -> 2 (0.4) -> 3 (1.0), and a probe 4 (0.0) under 3.
DraftTree Sample() {
  DraftTree tree;
  tree.nodes = {{.token = 1, .parent = kRoot, .confidence = 0.5f},
                {.token = 2, .parent = 0, .confidence = 0.9f},
                {.token = 3, .parent = kRoot, .confidence = 0.4f},
                {.token = 4, .parent = 2, .confidence = 1.0f},
                {.token = 5, .parent = 3, .confidence = 0.0f, .is_probe = true}};
  return tree;
}

TEST(NodeSelection, RanksByTheProductAlongThePath) {
  const RankedNodes ranked = RankBySurvival(Sample());
  EXPECT_EQ(ranked.order, (std::vector<int32_t>{0, 1, 2, 3, 4}));
  EXPECT_FLOAT_EQ(ranked.survival[1], 0.45f);
  EXPECT_FLOAT_EQ(ranked.survival[3], 0.4f);
  const std::vector<double> expected = ExpectedTokensOfPrefixes(ranked);
  ASSERT_EQ(expected.size(), 6u);
  EXPECT_NEAR(expected[2], 1.95, 1e-6);
  EXPECT_NEAR(expected[4], 2.75, 1e-6);
}

TEST(NodeSelection, AnEqualChildNeverComesBeforeItsParent) {
  DraftTree tree;
  for (int32_t i = 0; i < 5; ++i) tree.nodes.push_back({.token = i, .parent = i - 1});
  EXPECT_EQ(RankBySurvival(tree).order, (std::vector<int32_t>{0, 1, 2, 3, 4}));
}

TEST(NodeSelection, ProbesAreKeptWithTheirAncestors) {
  const DraftTree tree = Sample();
  const RankedNodes ranked = RankBySurvival(tree);
  EXPECT_EQ(KeepBest(tree, ranked, 1, 10), (std::vector<bool>{true, false, true, true, true}));
  // No room for the probe's whole path: the best guesses take it.
  EXPECT_EQ(KeepBest(tree, ranked, 2, 2), (std::vector<bool>{true, true, false, false, false}));
}

}  // namespace
}  // namespace tahmin
