#include "draft/draft_tree_growth.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "draft/fake_target.h"
#include "gtest/gtest.h"

namespace tahmin {
namespace {

constexpr int32_t kVocabSize = 1000;

// Choices that depend on the path: descending confidences that add up to less than 1.
std::vector<DraftChoice> ChoicesBehind(const std::vector<int32_t>& path, uint32_t seed) {
  for (const int32_t token : path) seed = seed * 1664525u + 1013904223u + token;
  std::mt19937 generator(seed);
  std::vector<DraftChoice> choices;
  float rest = 1;
  for (int32_t i = 0; i < 5; ++i) {
    const float part = 0.2f + 0.7f * static_cast<float>(generator() % 1000) * 0.001f;
    choices.push_back({static_cast<int32_t>(generator() % 199) * 5 + i, rest * part});
    rest -= rest * part;
  }
  std::sort(choices.begin(), choices.end(),
            [](const DraftChoice& a, const DraftChoice& b) { return a.confidence > b.confidence; });
  return choices;
}

struct Grown {
  DraftTree tree;
  int32_t num_passes = 0, num_rows = 0;
};

Grown Grow(const DraftBudget& budget, uint32_t seed) {
  Grown grown;
  DraftTreeGrowth growth(budget);
  growth.Expand(kRoot, ChoicesBehind({}, seed));
  for (auto frontier = growth.Frontier(); !frontier.empty(); frontier = growth.Frontier()) {
    ++grown.num_passes;
    for (const int32_t node : frontier) {
      ++grown.num_rows;
      std::vector<int32_t> path;
      for (const int32_t step : growth.PathBelow(kRoot, node)) path.push_back(growth.TokenOf(step));
      growth.Expand(node, ChoicesBehind(path, seed));
    }
  }
  grown.tree = growth.Tree();
  return grown;
}

// Survival of every path down to max_depth, by brute force, best first.
void CollectSurvivals(const std::vector<int32_t>& path, float survival, const DraftBudget& budget,
                      uint32_t seed, std::vector<float>& survivals) {
  if (static_cast<int32_t>(path.size()) == budget.max_depth) return;
  int32_t width = 0;
  for (const DraftChoice& choice : ChoicesBehind(path, seed)) {
    if (width++ == budget.max_width) break;
    std::vector<int32_t> child = path;
    child.push_back(choice.token);
    survivals.push_back(survival * choice.confidence);
    CollectSurvivals(child, survivals.back(), budget, seed, survivals);
  }
}

std::vector<float> SurvivalsOf(const DraftTree& tree) {
  std::vector<float> survivals;
  for (const DraftNode& node : tree.nodes) {
    survivals.push_back((node.parent == kRoot ? 1 : survivals[node.parent]) * node.confidence);
  }
  return survivals;
}

TEST(DraftTreeGrowth, HoldsNearlyAllThatTheBestTreeOfItsSizeHolds) {
  double got = 0, best = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const DraftBudget budget = {.max_tokens = 2 + static_cast<int32_t>(seed % 20),
                                .max_depth = 1 + static_cast<int32_t>(seed % 5),
                                .max_width = 2 + static_cast<int32_t>(seed % 3)};
    const Grown grown = Grow(budget, seed);
    ASSERT_STREQ(BrokenPromise(grown.tree, budget, kVocabSize), "");
    std::vector<float> expected;
    CollectSurvivals({}, 1, budget, seed, expected);
    std::sort(expected.rbegin(), expected.rend());
    expected.resize(std::min<size_t>(expected.size(), budget.max_tokens));
    ASSERT_EQ(grown.tree.nodes.size(), expected.size());
    // What is emitted per step, short of the root's own token, is the sum of the survivals.
    double sum = 0, best_sum = 0;
    for (const float survival : SurvivalsOf(grown.tree)) sum += survival;
    for (const float survival : expected) best_sum += survival;
    ASSERT_LE(sum, best_sum * 1.0001);
    ASSERT_GE(sum, best_sum * 0.9);
    got += sum;
    best += best_sum;
    ASSERT_LE(grown.num_passes, budget.max_depth);
    ASSERT_LE(grown.num_rows, 2 * budget.max_tokens);
  }
  EXPECT_GE(got, 0.985 * best);
}

TEST(DraftTreeGrowth, NothingGrowsBelowTheLeastSurvival) {
  DraftBudget budget = {.max_tokens = 30, .max_depth = 6, .max_width = 3, .min_survival = 0.3f};
  budget.scale.acceptance.fill(0.5f);  // whatever the drafter says, half is right
  const Grown grown = Grow(budget, 7);
  // 0.5 grows, 0.25 does not: two levels.
  EXPECT_EQ(grown.tree.size(), 3 + 9);
  EXPECT_EQ(grown.num_passes, 1);
  for (const DraftNode& node : grown.tree.nodes) {
    EXPECT_TRUE(node.parent == kRoot || grown.tree.nodes[node.parent].parent == kRoot);
  }
  budget.min_survival = 0.6f;
  const Grown stopped = Grow(budget, 7);
  EXPECT_EQ(stopped.tree.size(), 3);  // paid for by the pass that the step needs in any case
  EXPECT_EQ(stopped.num_passes, 0);
}

TEST(DraftTreeGrowth, CommonAncestorIsTheDeepestOneAboveAll) {
  DraftTreeGrowth growth({.max_tokens = 20, .max_depth = 5, .max_width = 2});
  const std::vector<DraftChoice> two = {{1, 0.6f}, {2, 0.4f}};
  growth.Expand(kRoot, two);  // 0, 1
  growth.Expand(0, two);      // 2, 3
  growth.Expand(2, two);      // 4, 5
  growth.Expand(3, two);      // 6, 7
  EXPECT_EQ(growth.CommonAncestor(std::vector<int32_t>{4}), 2);
  EXPECT_EQ(growth.CommonAncestor(std::vector<int32_t>{4, 5}), 2);
  EXPECT_EQ(growth.CommonAncestor(std::vector<int32_t>{4, 7}), 0);
  EXPECT_EQ(growth.CommonAncestor(std::vector<int32_t>{2, 7}), 0);
  EXPECT_EQ(growth.CommonAncestor(std::vector<int32_t>{1, 7}), kRoot);
  EXPECT_EQ(growth.PathBelow(0, 7), (std::vector<int32_t>{3, 7}));
  EXPECT_TRUE(growth.PathBelow(4, 4).empty());
}

}  // namespace
}  // namespace tahmin
