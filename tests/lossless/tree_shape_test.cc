// Trees of any shape, empty ones and broken ones included, change nothing but the number of steps.
#include <cstdint>
#include <string>
#include <vector>

#include "draft/test_drafters.h"
#include "gtest/gtest.h"
#include "step/draft_tree.h"
#include "tests/lossless/tiny_engine.h"

namespace tahmin {
namespace {

// Proposes trees made from what plain decoding writes next, for every step until the text ends.
// make_tree(next, step): the tree for a step behind which plain decoding writes `next`.
template <typename MakeTree>
GenerationRequest Scripted(const GenerationRequest& request, const GenerationResult& plain,
                           int32_t draft_max, MakeTree make_tree) {
  std::vector<DraftTree> trees;
  size_t position = 1;  // behind the first token, which the prefill gives
  for (int32_t step = 0; position < plain.tokens.size(); ++step) {
    const std::vector<int32_t> next(plain.tokens.begin() + position, plain.tokens.end());
    const auto [tree, num_right] = make_tree(next, step);
    trees.push_back(tree);
    position += num_right + 1;
  }
  GenerationRequest scripted = WithDrafter(request, "script", draft_max);
  scripted.script_tokens = EncodeScript(trees);
  return scripted;
}

struct TreeAndHits {
  DraftTree tree;
  size_t num_right = 0;  // draft tokens in it that plain decoding writes
};

std::vector<int32_t> FirstOf(const std::vector<int32_t>& tokens, size_t count) {
  return {tokens.begin(), tokens.begin() + std::min(count, tokens.size())};
}

class TreeShape : public testing::TestWithParam<uint64_t> {
 protected:
  TreeShape() : engine_(MakeTinyEngine({.threads = 2, .prefill_chunk = 4})) {
    request_ = TinyRequest(TinyPrompt(11, 5));
    request_.options.ignore_end_tokens = true;
    if (GetParam() != 0) request_ = WithSeed(request_, GetParam());
    plain_ = Generate(*engine_, request_);
  }

  std::unique_ptr<Engine> engine_;
  GenerationRequest request_;
  GenerationResult plain_;
};

TEST_P(TreeShape, BushesB04) {
  struct Shape {
    int32_t width;
    size_t depth;
  };
  for (const Shape shape : {Shape{1, 4}, Shape{2, 2}, Shape{4, 2}, Shape{8, 1}, Shape{3, 5}}) {
    SCOPED_TRACE(std::to_string(shape.width) + "x" + std::to_string(shape.depth));
    const GenerationRequest scripted =
        Scripted(request_, plain_, 16, [&](const std::vector<int32_t>& next, int32_t) {
          const std::vector<int32_t> path = FirstOf(next, shape.depth);
          // The last token of the text is the bonus token of its step, never a draft token.
          const size_t hits = next.size() > path.size() ? path.size() : path.size() - 1;
          return TreeAndHits{Bush(path, shape.width), hits};
        });
    const GenerationResult result = Generate(*engine_, scripted);
    ExpectSameOutput(plain_, result);
    EXPECT_GT(result.stats.accepted, 0);
    // Every tree held the right path, at the far end of the reserved slots.
    EXPECT_LT(result.stats.steps, plain_.stats.steps);
  }
}

TEST_P(TreeShape, EmptyOneAndManyInTurnsB27) {
  const size_t lengths[] = {0, 1, 6, 0, 0, 6};
  const GenerationRequest scripted =
      Scripted(request_, plain_, 6, [&](const std::vector<int32_t>& next, int32_t step) {
        const size_t wanted = lengths[step % 6];
        const size_t hits = std::min(wanted, next.size() - 1);
        return TreeAndHits{Chain(FirstOf(next, wanted)), hits};
      });
  ExpectSameOutput(plain_, Generate(*engine_, scripted));
}

TEST_P(TreeShape, PartlyRightChainsB27) {
  const GenerationRequest scripted =
      Scripted(request_, plain_, 8, [&](const std::vector<int32_t>& next, int32_t step) {
        std::vector<int32_t> tokens = FirstOf(next, 8);
        const size_t wrong = static_cast<size_t>(step) % 8;
        size_t hits = std::min(tokens.size(), next.size() - 1);
        if (wrong < tokens.size()) {
          tokens[wrong] = TinyVocabulary::kFirstByte + (tokens[wrong] + 7) % 256;
          hits = std::min(hits, wrong);
        }
        return TreeAndHits{Chain(tokens), hits};
      });
  ExpectSameOutput(plain_, Generate(*engine_, scripted));
}

TEST_P(TreeShape, ImpossibleIdsNeverReachTheEmbeddingB35) {
  // An id outside the vocabulary takes its branch along; duplicates and orphans are cut as well.
  const GenerationRequest scripted =
      Scripted(request_, plain_, 8, [&](const std::vector<int32_t>& next, int32_t) {
        DraftTree tree = Chain({1 << 30, next[0]});
        tree.nodes.push_back({.token = -5, .parent = kRoot});
        tree.nodes.push_back({.token = next[0], .parent = kRoot});
        tree.nodes.push_back({.token = next[0], .parent = kRoot});
        tree.nodes.push_back({.token = TinyTarget().vocab_size, .parent = 3});
        tree.nodes.push_back({.token = 9, .parent = 40});
        return TreeAndHits{tree, next.size() > 1 ? size_t{1} : size_t{0}};
      });
  const GenerationResult result = Generate(*engine_, scripted);
  ExpectSameOutput(plain_, result);
  // Of the seven nodes one is left.
  EXPECT_LE(result.stats.drafted, result.stats.steps);
  EXPECT_EQ(result.stats.accepted, result.stats.drafted);
}

INSTANTIATE_TEST_SUITE_P(GreedyAndSeeds, TreeShape, testing::Values(0, 5, 6, 7));

}  // namespace
}  // namespace tahmin
