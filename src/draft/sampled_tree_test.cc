#include "draft/sampled_tree.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/philox.h"
#include "gtest/gtest.h"
#include "sampling/chi_square_for_test.h"
#include "sampling/keyed_draw.h"

namespace tahmin {
namespace {

std::function<double(int32_t)> UniformsOf(uint64_t seed) {
  return [seed](int32_t place) {
    return StepUniform(seed, DrawPurpose::kDraft, 0, static_cast<uint32_t>(place), 0);
  };
}

const TokenDistribution kFour = {{{7, 0.4}, {3, 0.3}, {9, 0.2}, {1, 0.1}}};

TEST(SampledTreeShape, IsBestFirst) {
  // Survivals 0.6, 0.36, 0.24 (the root's second child), 0.216, 0.144 twice.
  const std::vector<int32_t> expected = {kRoot, 0, kRoot, 1};
  EXPECT_EQ(SampledTreeShape({.max_tokens = 4, .max_depth = 3, .max_width = 2}), expected);
}

TEST(SampledTreeShape, KeepsItsLimits) {
  for (int32_t tokens : {0, 1, 2, 5, 16, 64}) {
    for (int32_t depth : {0, 1, 2, 7}) {
      for (int32_t width : {1, 2, 5}) {
        const std::vector<int32_t> parents =
            SampledTreeShape({.max_tokens = tokens, .max_depth = depth, .max_width = width});
        ASSERT_LE(static_cast<int32_t>(parents.size()), tokens);
        std::map<int32_t, int32_t> num_children;
        std::vector<int32_t> depth_of;
        for (const int32_t parent : parents) {
          ASSERT_LT(parent, static_cast<int32_t>(depth_of.size()));
          depth_of.push_back(parent == kRoot ? 1 : depth_of[parent] + 1);
          EXPECT_LE(depth_of.back(), depth);
          EXPECT_LE(++num_children[parent], width);
        }
        double capacity = 0;
        for (int32_t level = 1; level <= depth; ++level) capacity += std::pow(width, level);
        if (capacity >= tokens) {
          EXPECT_EQ(static_cast<int32_t>(parents.size()), tokens);
        }
      }
    }
  }
}

TEST(DrawSiblings, AreDrawnWithoutReplacement) {
  std::map<std::pair<int32_t, int32_t>, int64_t> counts;
  std::map<std::pair<int32_t, int32_t>, double> expected;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    const std::vector<DraftNode> pair = DrawSiblings(kFour, 2, kRoot, UniformsOf(seed));
    ASSERT_EQ(pair.size(), 2u);
    counts[{pair[0].token, pair[1].token}] += 1;
  }
  for (const auto& [first, p] : kFour.entries) {
    for (const auto& [second, q] : kFour.entries) {
      if (first != second) expected[{first, second}] = p * q / (1 - p);
    }
  }
  EXPECT_GT(PValueOfCounts(counts, expected), 1e-3);
}

TEST(DrawSiblings, RecordWhatTheyWereDrawnFrom) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    // Six are wanted, four there are.
    const std::vector<DraftNode> siblings = DrawSiblings(kFour, 6, 5, UniformsOf(seed));
    ASSERT_EQ(siblings.size(), 4u);
    double left = 1;
    for (size_t i = 0; i < siblings.size(); ++i) {
      const DraftNode& node = siblings[i];
      EXPECT_EQ(node.parent, 5);
      ASSERT_EQ(node.q.entries.size(), 4 - i);
      for (const TokenProbability& entry : node.q.entries)
        EXPECT_NEAR(entry.probability, kFour.ProbabilityOf(entry.token) / left, 1e-12);
      for (size_t k = 0; k < i; ++k) EXPECT_EQ(node.q.ProbabilityOf(siblings[k].token), 0);
      EXPECT_FLOAT_EQ(node.confidence, static_cast<float>(node.q.ProbabilityOf(node.token)));
      left -= kFour.ProbabilityOf(node.token);
    }
  }
}

DraftTree Grow(const DraftBudget& budget, uint64_t seed, const TokenDistribution& q) {
  SampledTree tree(budget);
  tree.Expand(kRoot, q, UniformsOf(seed));
  for (auto frontier = tree.Frontier(); !frontier.empty(); frontier = tree.Frontier()) {
    tree.Expand(frontier.back(), q, UniformsOf(seed));  // one at a time, the last first
  }
  return tree.Tree();
}

TEST(SampledTree, ItsShapeIsThatOfTheBudgetWhateverIsDrawn) {
  const DraftBudget budget = {.max_tokens = 13, .max_depth = 4, .max_width = 3};
  const std::vector<int32_t> shape = SampledTreeShape(budget);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const DraftTree tree = Grow(budget, seed, kFour);
    ASSERT_EQ(tree.nodes.size(), shape.size());
    for (size_t i = 0; i < shape.size(); ++i) EXPECT_EQ(tree.nodes[i].parent, shape[i]);
  }
}

TEST(SampledTree, PlacesWithoutSupportAreLeftOutWithWhatHangsBelowThem) {
  const DraftTree tree =
      Grow({.max_tokens = 13, .max_depth = 4, .max_width = 3}, 1, {{{4, 0.75}, {6, 0.25}}});
  std::map<int32_t, int32_t> num_children;
  for (const DraftNode& node : tree.nodes) EXPECT_LE(++num_children[node.parent], 2);
  EXPECT_LT(tree.size(), 13);
  EXPECT_GT(tree.size(), 4);
}

}  // namespace
}  // namespace tahmin
