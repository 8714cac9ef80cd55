#include "draft/token_recycling.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "draft/fake_target.h"
#include "draft/recycling_matrix.h"
#include "gtest/gtest.h"

namespace tahmin {
namespace {

constexpr int32_t kVocabSize = 60;
constexpr DraftBudget kEight = {.max_tokens = 8, .max_depth = 4, .max_width = 3};

// Rows that depend on the last two tokens, with several likely ones.
std::vector<float> RandomRow(const std::vector<int32_t>& context) {
  const int32_t last = context.back();
  const int32_t before = context.size() > 1 ? context[context.size() - 2] % 3 : 0;
  std::mt19937 generator(static_cast<uint32_t>(last * 3 + before));
  std::vector<float> row(kVocabSize);
  for (float& logit : row) logit = static_cast<float>(generator() % 1000) * 0.01f;
  return row;
}

// A row whose best tokens are the given ones, best first.
std::vector<float> RowOf(const std::vector<int32_t>& tokens) {
  std::vector<float> row(kVocabSize, 0.0f);
  float logit = 20;
  for (const int32_t token : tokens) row[token] = logit -= 1;
  return row;
}

// Every path of the matrix down to max_depth, likeliest first: the best max_tokens of them are what
// a best-first tree holds.
struct Path {
  float survival;
  std::vector<int32_t> tokens;
};
void CollectPaths(RecyclingMatrix& matrix, int32_t previous, int32_t token, const Path& path,
                  int32_t max_depth, std::vector<Path>& paths) {
  if (static_cast<int32_t>(path.tokens.size()) == max_depth) return;
  const auto [row, knows_pair] = matrix.Find(previous, token);
  std::vector<float> confidences;
  float sum = 0;
  for (int32_t i = 0; i < RecyclingMatrix::kSuccessors && row.shares[i] > 0; ++i) {
    confidences.push_back(matrix.acceptance().Of(knows_pair, i, row.ProbabilityOf(i)));
    sum += confidences.back();
  }
  for (size_t i = 0; i < confidences.size(); ++i) {
    Path child = path;
    child.survival *= confidences[i] * (sum > 1 ? 1 / sum : 1.0f);
    child.tokens.push_back(row.tokens[i]);
    paths.push_back(child);
    CollectPaths(matrix, token, row.tokens[i], child, max_depth, paths);
  }
}

TEST(TokenRecycling, TreeHoldsTheLikeliestPathsB27) {
  RecyclingMatrix matrix(kVocabSize);
  const auto drafter = MakeTokenRecycling(&matrix, kVocabSize);
  FakeTarget target(RandomRow);
  std::vector<int32_t> tokens = {1, 2, 3};
  drafter->Begin({.tokens = tokens});
  const DraftBudget budget = {.max_tokens = 12, .max_depth = 3, .max_width = 8};
  for (int32_t step = 0; step < 300; ++step) {
    std::vector<Path> paths;
    CollectPaths(matrix, tokens[tokens.size() - 2], tokens.back(), {1, {}}, 3, paths);
    std::stable_sort(paths.begin(), paths.end(),
                     [](const Path& a, const Path& b) { return a.survival > b.survival; });
    const DraftTree tree = target.Step(budget, *drafter, tokens);
    ASSERT_STREQ(BrokenPromise(tree, budget, kVocabSize), "");
    ASSERT_EQ(static_cast<size_t>(tree.size()), std::min<size_t>(12, paths.size()));
    std::vector<float> survivals;
    for (const DraftNode& node : tree.nodes) {
      survivals.push_back(node.confidence * (node.parent == kRoot ? 1 : survivals[node.parent]));
    }
    for (size_t i = 0; i < survivals.size(); ++i) {
      ASSERT_NEAR(survivals[i], paths[i].survival, 1e-6f) << "step " << step << " node " << i;
    }
  }
  EXPECT_GT(tokens.size(), 303u + 150u);  // a target this regular is guessed more often than not
}

TEST(TokenRecycling, EveryVerifiedRowIsKept) {
  RecyclingMatrix matrix(kVocabSize);
  const auto drafter = MakeTokenRecycling(&matrix, kVocabSize);
  // root 1 - 2 - 4
  //        \ 3       4 is not submitted; the target says 3, then 9.
  DraftTree draft;
  draft.nodes = {{.token = 2}, {.token = 3}, {.token = 4, .parent = 0}};
  std::vector<float> logits;
  for (const auto& row : {RowOf({3}), RowOf({50, 51}), RowOf({9, 8})}) {
    logits.insert(logits.end(), row.begin(), row.end());
  }
  const std::vector<int32_t> tokens = {7, 1, 3, 9}, node_map = {0, 1, -1};
  drafter->Observe({.tokens = tokens}, draft, {.logits = logits, .vocab_size = kVocabSize},
                   {.nodes = {1}, .tokens = {3, 9}}, node_map);
  EXPECT_EQ(matrix.Find(7, 1).row.tokens[0], 3);
  EXPECT_EQ(matrix.Find(1, 3).row.tokens[0], 9);
  EXPECT_EQ(matrix.Find(1, 3).row.tokens[1], 8);
  EXPECT_EQ(matrix.Find(1, 2).row.tokens[0], 50);  // rejected, and kept
  EXPECT_EQ(matrix.Find(1, 2).row.tokens[1], 51);
  EXPECT_TRUE(matrix.Find(7, 1).knows_pair);
  EXPECT_TRUE(matrix.Find(1, 3).knows_pair);
  EXPECT_EQ(matrix.Find(2, 4).row.shares[0], 0);
}

TEST(TokenRecycling, AcceptedRowsWinOverOthersOfTheSameTokenElseTheLast) {
  RecyclingMatrix matrix(kVocabSize);
  const auto drafter = MakeTokenRecycling(&matrix, kVocabSize);
  // 5 is accepted below the root and rejected below itself; 6 is rejected twice.
  DraftTree draft;
  draft.nodes = {{.token = 5}, {.token = 6}, {.token = 5, .parent = 0}, {.token = 6, .parent = 0}};
  std::vector<float> logits;
  for (const auto& row : {RowOf({5}), RowOf({30}), RowOf({31}), RowOf({32}), RowOf({33})}) {
    logits.insert(logits.end(), row.begin(), row.end());
  }
  const std::vector<int32_t> tokens = {1, 5, 30}, node_map = {0, 1, 2, 3};
  drafter->Observe({.tokens = tokens}, draft, {.logits = logits, .vocab_size = kVocabSize},
                   {.nodes = {0}, .tokens = {5, 30}}, node_map);
  EXPECT_EQ(matrix.Find(99, 5).row.tokens[0], 30);
  EXPECT_EQ(matrix.Find(99, 6).row.tokens[0], 33);
  // Each pair keeps its own.
  EXPECT_EQ(matrix.Find(5, 5).row.tokens[0], 32);
  EXPECT_EQ(matrix.Find(1, 6).row.tokens[0], 31);
}

TEST(TokenRecycling, LearnsFromNodesOfOtherDraftersOnTheAcceptedPath) {
  RecyclingMatrix matrix(kVocabSize);
  const auto drafter = MakeTokenRecycling(&matrix, kVocabSize);
  std::vector<float> logits;  // of the merged tree: the root and a node that is not this drafter's
  for (const auto& row : {RowOf({5}), RowOf({40})}) {
    logits.insert(logits.end(), row.begin(), row.end());
  }
  const std::vector<int32_t> tokens = {1, 5, 40};
  drafter->Observe({.tokens = tokens}, {}, {.logits = logits, .vocab_size = kVocabSize},
                   {.nodes = {0}, .tokens = {5, 40}}, {});
  EXPECT_EQ(matrix.Find(1, 5).row.tokens[0], 40);
}

TEST(TokenRecycling, DraftsFromThePromptAtOnce) {
  const auto drafter = MakeTokenRecycling(nullptr, kVocabSize);
  const std::vector<int32_t> prompt = {1, 2, 3, 4, 9, 1, 2};
  drafter->Begin({.tokens = prompt});
  const DraftTree tree =
      drafter->Draft({.tokens = prompt}, {.max_tokens = 3, .max_depth = 3, .max_width = 1});
  ASSERT_EQ(tree.size(), 3);
  for (int32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(tree.nodes[i].token, prompt[2 + i]);
    EXPECT_EQ(tree.nodes[i].parent, i - 1);
  }
}

TEST(TokenRecycling, MatrixOutlivesTheDrafter) {
  RecyclingMatrix matrix(kVocabSize);
  FakeTarget target(RandomRow);
  std::vector<int32_t> tokens = {1, 2, 3};
  {
    const auto first = MakeTokenRecycling(&matrix, kVocabSize);
    first->Begin({.tokens = tokens});
    for (int32_t i = 0; i < 50; ++i) target.Step(kEight, *first, tokens);
  }
  const std::vector<int32_t> again(tokens.begin(), tokens.begin() + 4);
  const auto second = MakeTokenRecycling(&matrix, kVocabSize);
  EXPECT_EQ(second->Draft({.tokens = again}, kEight).size(), 8);
  const auto cold = MakeTokenRecycling(nullptr, kVocabSize);
  EXPECT_TRUE(cold->Draft({.tokens = again}, kEight).empty());
}

TEST(TokenRecycling, KeepsToEveryBudget) {
  RecyclingMatrix matrix(kVocabSize);
  FakeTarget target(RandomRow);
  const auto drafter = MakeTokenRecycling(&matrix, kVocabSize);
  std::vector<int32_t> tokens = {1, 2, 3};
  drafter->Begin({.tokens = tokens});
  for (int32_t i = 0; i < 400; ++i) {
    const DraftBudget budget = {.max_tokens = i % 17, .max_depth = i % 7, .max_width = 1 + i % 5};
    const DraftTree tree = target.Step(budget, *drafter, tokens);
    ASSERT_STREQ(BrokenPromise(tree, budget, kVocabSize), "") << "step " << i;
  }
}

TEST(TokenRecycling, StopsWhereTooLittleSurvives) {
  RecyclingMatrix matrix(kVocabSize);
  FakeTarget target(RandomRow);
  const auto drafter = MakeTokenRecycling(&matrix, kVocabSize);
  std::vector<int32_t> tokens = {1, 2, 3};
  drafter->Begin({.tokens = tokens});
  DraftBudget budget = {.max_tokens = 20, .max_depth = 5, .max_width = 4};
  int32_t num_left_out = 0;
  for (int32_t i = 0; i < 200; ++i) {
    budget.min_survival = 0.2f;
    const DraftTree tree = drafter->Draft({.tokens = tokens}, budget);
    std::vector<float> survivals;
    for (const DraftNode& node : tree.nodes) {
      survivals.push_back((node.parent == kRoot ? 1 : survivals[node.parent]) *
                          budget.scale.Of(node.confidence));
      ASSERT_GE(survivals.back(), 0.2f);
    }
    budget.min_survival = 0;
    num_left_out += drafter->Draft({.tokens = tokens}, budget).size() - tree.size();
    target.Step(budget, *drafter, tokens);
  }
  EXPECT_GT(num_left_out, 200);
}

TEST(TokenRecycling, ConfidenceIsHonest) {
  // After token t the target says t + 1 in 70 of 100 cases and t + 2 else, whatever came before;
  // its logits say so.
  std::mt19937 generator(3);
  FakeTarget target([&](const std::vector<int32_t>& context) {
    const int32_t last = context.back();
    const bool is_first = generator() % 100 < 70;
    return RowOf(
        {(last + (is_first ? 1 : 2)) % kVocabSize, (last + (is_first ? 2 : 1)) % kVocabSize});
  });
  RecyclingMatrix matrix(kVocabSize);
  const auto drafter = MakeTokenRecycling(&matrix, kVocabSize);
  std::vector<int32_t> tokens = {0, 1};
  drafter->Begin({.tokens = tokens});
  double expected = 0, tested = 0, right = 0;
  for (int32_t step = 0; step < 4000; ++step) {
    const size_t size = tokens.size();
    const DraftTree tree =
        target.Step({.max_tokens = 1, .max_depth = 1, .max_width = 1}, *drafter, tokens);
    if (step < 1000 || tree.empty()) continue;
    tested += 1;
    expected += tree.nodes[0].confidence;
    right += tree.nodes[0].token == tokens[size] ? 1 : 0;
  }
  EXPECT_NEAR(expected / tested, right / tested, 0.05);
}

}  // namespace
}  // namespace tahmin
