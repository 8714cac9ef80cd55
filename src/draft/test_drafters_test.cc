#include "draft/test_drafters.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace tahmin {
namespace {

constexpr DraftBudget kThree = {.max_tokens = 3, .max_depth = 3};

std::vector<int32_t> TokensOf(const DraftTree& tree) {
  std::vector<int32_t> tokens;
  for (const DraftNode& node : tree.nodes) tokens.push_back(node.token);
  return tokens;
}

TEST(Replay, ProposesTheEarlierRunUntilTheSequenceDiffers) {
  const auto replay = MakeReplay({1, 2, 3, 4, 5, 6});
  std::vector<int32_t> tokens = {1, 2};
  replay->Begin({.tokens = tokens});
  EXPECT_EQ(TokensOf(replay->Draft({.tokens = tokens}, kThree)), (std::vector<int32_t>{3, 4, 5}));
  tokens = {1, 2, 3, 4, 5};
  EXPECT_EQ(TokensOf(replay->Draft({.tokens = tokens}, kThree)), (std::vector<int32_t>{6}));
  tokens = {1, 2, 3, 4, 5, 6};
  EXPECT_TRUE(replay->Draft({.tokens = tokens}, kThree).empty());

  tokens = {1, 2, 9};
  replay->Begin({.tokens = tokens});
  EXPECT_TRUE(replay->Draft({.tokens = tokens}, kThree).empty());
  tokens = {1, 2, 9, 4};
  EXPECT_TRUE(replay->Draft({.tokens = tokens}, kThree).empty());
}

TEST(Junk, IdsAreInRangeAndNeverTwiceInARow) {
  const auto junk = MakeJunk(3);
  for (int64_t step = 0; step < 200; ++step) {
    int32_t previous = static_cast<int32_t>(step % 3);
    const std::vector<int32_t> tokens = {previous};
    const DraftTree tree = junk->Draft({.tokens = tokens, .step_index = step}, kThree);
    ASSERT_EQ(tree.size(), 3);
    for (int32_t token : TokensOf(tree)) {
      EXPECT_GE(token, 0);
      EXPECT_LT(token, 3);
      EXPECT_NE(token, previous);
      previous = token;
    }
  }
}

TEST(Script, ProposesTreeByStepCutToTheBudget) {
  DraftTree one, four;
  one.nodes = {{.token = 7}};
  four.nodes = {{.token = 1}, {.token = 2}, {.token = 3, .parent = 0}, {.token = 4, .parent = 2}};
  const auto script = MakeScript({one, {}, four});
  auto at_step = [&](int64_t step) {
    const std::vector<int32_t> tokens = {0};
    return TokensOf(script->Draft({.tokens = tokens, .step_index = step}, kThree));
  };
  EXPECT_EQ(at_step(1), (std::vector<int32_t>{7}));  // decoding steps count from 1
  EXPECT_TRUE(at_step(2).empty());
  EXPECT_EQ(at_step(3), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_TRUE(at_step(4).empty());
}

TEST(Script, TreesSurviveEncoding) {
  DraftTree tree;
  tree.nodes = {{.token = 1}, {.token = 1 << 30, .parent = 0}, {.token = -5, .parent = 99}};
  const std::vector<DraftTree> trees = {tree, {}, tree};
  const auto decoded = DecodeScript(EncodeScript(trees));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_EQ(decoded->size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_EQ((*decoded)[i].size(), trees[i].size());
    for (int32_t j = 0; j < trees[i].size(); ++j) {
      EXPECT_EQ((*decoded)[i].nodes[j].token, trees[i].nodes[j].token);
      EXPECT_EQ((*decoded)[i].nodes[j].parent, trees[i].nodes[j].parent);
    }
  }
  const std::vector<std::vector<int32_t>> broken = {{1}, {1, 2}, {-1}, {2, 1, -1}, {1 << 30, 1, 1}};
  for (const std::vector<int32_t>& numbers : broken) {
    EXPECT_EQ(DecodeScript(numbers).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tahmin
