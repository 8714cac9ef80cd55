#include "verify/tree_layout.h"

#include "gtest/gtest.h"

namespace tahmin {
namespace {

DraftTree TreeOf(const std::vector<std::pair<int32_t, int32_t>>& tokens_and_parents) {
  DraftTree tree;
  for (const auto& [token, parent] : tokens_and_parents) {
    tree.nodes.push_back({.token = token, .parent = parent});
  }
  return tree;
}

TEST(AppendTree, SiblingsShareADepthAndSeeOnlyTheirAncestorsB04) {
  // root 5 - 10 - 12
  //        \ 11 - 13 - 14
  const DraftTree tree = TreeOf({{10, kRoot}, {11, kRoot}, {12, 0}, {13, 1}, {14, 3}});
  TokenBatch batch;
  AppendTree(7, 5, tree, &batch);
  ASSERT_EQ(batch.rows.size(), 6u);
  const int32_t tokens[] = {5, 10, 11, 12, 13, 14};
  const int32_t parents[] = {-1, 0, 0, 1, 2, 4};
  const int32_t depths[] = {0, 1, 1, 2, 2, 3};
  for (int32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(batch.rows[i].token, tokens[i]);
    EXPECT_EQ(batch.rows[i].parent_row, parents[i]);
    EXPECT_EQ(batch.rows[i].depth, depths[i]);
    EXPECT_EQ(batch.rows[i].tree_slot, i);
    EXPECT_EQ(batch.rows[i].sequence, 7);
    EXPECT_TRUE(batch.rows[i].wants_logits);
  }
}

TEST(AppendTree, SecondSequenceOfABatchHasItsOwnRows) {
  TokenBatch batch;
  AppendTree(0, 1, TreeOf({{2, kRoot}}), &batch);
  AppendTree(1, 3, TreeOf({{4, kRoot}, {5, 0}}), &batch);
  ASSERT_EQ(batch.rows.size(), 5u);
  EXPECT_EQ(batch.rows[2].parent_row, -1);
  EXPECT_EQ(batch.rows[3].parent_row, 2);
  EXPECT_EQ(batch.rows[4].parent_row, 3);
  EXPECT_EQ(batch.rows[4].tree_slot, 2);
}

TEST(AppendTree, EmptyTreeIsAPlainStepB27) {
  TokenBatch batch;
  AppendTree(0, 9, {}, &batch);
  ASSERT_EQ(batch.rows.size(), 1u);
  EXPECT_EQ(batch.rows[0].token, 9);
}

TEST(ClipTree, NodesGoWithTheirAncestors) {
  const DraftTree tree = TreeOf({{500, kRoot}, {1, 0}, {2, kRoot}, {3, 2}, {-1, 3}, {4, 4}});
  const ClippedTree clipped = ClipTree(tree, 10, 10, 100);
  ASSERT_EQ(clipped.tree.size(), 2);
  EXPECT_EQ(clipped.tree.nodes[0].token, 2);
  EXPECT_EQ(clipped.tree.nodes[1].token, 3);
  EXPECT_EQ(clipped.tree.nodes[1].parent, 0);
  const std::vector<int32_t> expected = {-1, -1, 0, 1, -1, -1};
  EXPECT_EQ(clipped.node_map, expected);
}

TEST(ClipTree, BudgetCutsCountAndDepth) {
  const DraftTree chain = TreeOf({{1, kRoot}, {2, 0}, {3, 1}, {4, 2}});
  EXPECT_EQ(ClipTree(chain, 3, 10, 100).tree.size(), 3);
  EXPECT_EQ(ClipTree(chain, 10, 2, 100).tree.size(), 2);
  EXPECT_EQ(ClipTree(chain, 0, 10, 100).tree.size(), 0);
  EXPECT_EQ(ClipTree(chain, 10, 0, 100).tree.size(), 0);
  // A shallow node behind a deep one is still taken.
  const DraftTree bush = TreeOf({{1, kRoot}, {2, 0}, {3, 1}, {4, kRoot}});
  const ClippedTree clipped = ClipTree(bush, 10, 2, 100);
  EXPECT_EQ(clipped.tree.size(), 3);
  EXPECT_EQ(clipped.node_map[3], 2);
}

TEST(ClipTree, DuplicateSiblingsAndBrokenParentsGo) {
  const DraftTree tree = TreeOf({{1, kRoot}, {1, kRoot}, {2, 1}, {3, 3}, {4, 9}, {5, -7}, {1, 0}});
  const ClippedTree clipped = ClipTree(tree, 10, 10, 100);
  // The first 1, and the 1 below it, which is no sibling.
  ASSERT_EQ(clipped.tree.size(), 2);
  EXPECT_EQ(clipped.node_map[0], 0);
  EXPECT_EQ(clipped.node_map[6], 1);
}

TEST(ClipTree, KeepsWhatANodeCarries) {
  DraftTree tree;
  tree.nodes.push_back({.token = 500});
  tree.nodes.push_back({.token = 7, .confidence = 0.25f, .q = {{{7, 0.5}, {8, 0.5}}}});
  const ClippedTree clipped = ClipTree(tree, 10, 10, 100);
  ASSERT_EQ(clipped.tree.size(), 1);
  EXPECT_EQ(clipped.tree.nodes[0].confidence, 0.25f);
  EXPECT_EQ(clipped.tree.nodes[0].q.entries.size(), 2u);
}

}  // namespace
}  // namespace tahmin
