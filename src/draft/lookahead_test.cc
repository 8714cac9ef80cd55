#include "draft/lookahead.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "base/philox.h"
#include "draft/fake_target.h"
#include "gtest/gtest.h"

namespace tahmin {
namespace {

constexpr int32_t kVocabSize = 40;
using Tokens = std::vector<int32_t>;

// Mostly a function of the last token, sometimes of the last two, and slowly changing, so that it
// neither settles into a short cycle nor is the same for ever.
int32_t NextToken(const Tokens& context) {
  const int32_t last = context.back();
  const int32_t before = last % 4 == 0 && context.size() > 1 ? context[context.size() - 2] : 0;
  return (last * 7 + before + static_cast<int32_t>(context.size() / 60) * 11 + 3) % kVocabSize;
}

// Lookahead decoding step by step, without a tree: every position of the window and every guess is
// a context of its own.
class SlowLookahead {
 public:
  SlowLookahead(const LookaheadShape& shape, const Tokens& prompt) : shape_(shape) {
    AddTextNgrams(prompt, 0);
    const int32_t num_columns = shape.window + shape.ngram - 2;
    levels.push_back(Tokens(num_columns, 0));
    for (int32_t column = 1; column < num_columns; ++column) {
      const uint32_t bits = Philox4x32(0, {{static_cast<uint32_t>(column), 0, 0, 0}})[0];
      levels[0][column] = prompt[bits % prompt.size()];
    }
  }

  void Step(Tokens& tokens) {
    levels[0][0] = tokens.back();
    std::vector<Tokens> paths = pool[tokens.back()];
    Tokens new_tokens;
    for (size_t column = 0; column < levels[0].size(); ++column) {
      Tokens path(levels[0].begin() + 1, levels[0].begin() + 1 + column);
      for (size_t level = 1; level < levels.size(); ++level) path.push_back(levels[level][column]);
      Tokens context = tokens;
      context.insert(context.end(), path.begin(), path.end());
      new_tokens.push_back(NextToken(context));
      paths.push_back(path);
    }
    const size_t size = tokens.size();
    bool goes_on = true;
    while (goes_on) {
      tokens.push_back(NextToken(tokens));
      const Tokens emitted(tokens.begin() + size, tokens.end());
      goes_on = std::any_of(paths.begin(), paths.end(), [&](const Tokens& path) {
        return path.size() >= emitted.size() &&
               std::equal(emitted.begin(), emitted.end(), path.begin());
      });
    }
    UpdatePool(new_tokens);
    AddTextNgrams(tokens, size);
    ShiftWindow(new_tokens);
  }

  std::map<int32_t, std::vector<Tokens>> pool;  // values most recent first
  std::vector<Tokens> levels;

 private:
  void Add(int32_t key, const Tokens& value) {
    std::vector<Tokens>& values = pool[key];
    values.erase(std::remove(values.begin(), values.end(), value), values.end());
    values.insert(values.begin(), value);
    if (static_cast<int32_t>(values.size()) > shape_.guesses) values.pop_back();
  }
  void AddTextNgrams(const Tokens& tokens, size_t num_known) {
    for (size_t end = num_known + 1; end <= tokens.size(); ++end) {
      if (static_cast<int32_t>(end) < shape_.ngram) continue;
      const auto begin = tokens.begin() + end - shape_.ngram;
      Add(*begin, Tokens(begin + 1, tokens.begin() + end));
    }
  }
  void UpdatePool(const Tokens& new_tokens) {
    if (static_cast<int32_t>(levels.size()) < shape_.ngram - 1) return;
    for (size_t column = 0; column < new_tokens.size(); ++column) {
      Tokens value;
      for (size_t level = 1; level < levels.size(); ++level) value.push_back(levels[level][column]);
      value.push_back(new_tokens[column]);
      Add(levels[0][column], value);
    }
  }
  void ShiftWindow(const Tokens& new_tokens) {
    const bool is_full = static_cast<int32_t>(levels.size()) == shape_.ngram - 1;
    levels.push_back(new_tokens);
    if (is_full) {
      levels.erase(levels.begin());
    } else {
      for (Tokens& level : levels) level.erase(level.begin());
    }
  }

  const LookaheadShape shape_;
};

void ExpectSamePool(const NgramPool& pool, const std::map<int32_t, std::vector<Tokens>>& expected) {
  int32_t num_keys = 0;
  for (const auto& [key, values] : expected) {
    num_keys += values.empty() ? 0 : 1;
    ASSERT_EQ(pool.NumValues(key), static_cast<int32_t>(values.size())) << "key " << key;
    for (size_t i = 0; i < values.size(); ++i) {
      const std::span<const int32_t> value = pool.Value(key, static_cast<int32_t>(i));
      ASSERT_EQ(Tokens(value.begin(), value.end()), values[i]) << "key " << key << " value " << i;
    }
  }
  ASSERT_EQ(pool.num_keys(), num_keys);
}

DraftBudget BudgetFor(const LookaheadShape& shape) {
  return {.max_tokens = shape.MostNodes(),
          .max_depth = shape.MostDepth(),
          .max_width = shape.MostWidth()};
}

class LookaheadShapes : public testing::TestWithParam<LookaheadShape> {};

TEST_P(LookaheadShapes, EqualsTheSlowReferenceB45) {
  const LookaheadShape shape = GetParam();
  Lookahead lookahead(shape, kVocabSize);
  FakeTarget target = FakeTarget::Of(kVocabSize, NextToken);
  const Tokens prompt = {5, 9, 2, 17, 33, 5, 9, 2, 30};
  Tokens tokens = prompt, slow_tokens = prompt;
  SlowLookahead slow(shape, prompt);
  lookahead.Begin({.tokens = tokens});
  for (int32_t step = 0; step < 300; ++step) {
    const DraftTree tree = target.Step(BudgetFor(shape), lookahead, tokens);
    ASSERT_STREQ(BrokenPromise(tree, BudgetFor(shape), kVocabSize), "");
    slow.Step(slow_tokens);
    ASSERT_EQ(tokens, slow_tokens) << "step " << step;
    ASSERT_EQ(lookahead.levels().size(), slow.levels.size());
    for (size_t level = 0; level < slow.levels.size(); ++level) {
      // Column 0 of level 0 is set when the next step knows its root.
      const size_t first = level == 0 ? 1 : 0;
      ASSERT_TRUE(std::equal(slow.levels[level].begin() + first, slow.levels[level].end(),
                             lookahead.levels()[level].begin() + first,
                             lookahead.levels()[level].end()))
          << "step " << step << " level " << level;
    }
    ExpectSamePool(lookahead.pool(), slow.pool);
    if (HasFatalFailure()) FAIL() << "step " << step;
  }
  // Whatever the shape, the text itself helps.
  EXPECT_GT(tokens.size() - prompt.size(), 330u);
}

std::vector<LookaheadShape> AllShapes() {
  std::vector<LookaheadShape> shapes;
  for (const int32_t window : {1, 5, 15}) {
    for (const int32_t ngram : {2, 3, 5}) {
      for (const int32_t guesses : {1, 5, 15}) {
        shapes.push_back({.window = window, .ngram = ngram, .guesses = guesses});
      }
    }
  }
  return shapes;
}
INSTANTIATE_TEST_SUITE_P(All, LookaheadShapes, testing::ValuesIn(AllShapes()),
                         [](const testing::TestParamInfo<LookaheadShape>& shape) {
                           return "W" + std::to_string(shape.param.window) + "N" +
                                  std::to_string(shape.param.ngram) + "G" +
                                  std::to_string(shape.param.guesses);
                         });

TEST(Lookahead, WindowFindsWhatTheTextHasNot) {
  // The text counts from 1 to 100, then from 500 on. Nothing in it repeats; the prompt mentions
  // 500, so columns of the window have been there before.
  const int32_t vocab_size = 3000;
  FakeTarget target = FakeTarget::Of(vocab_size, [](const Tokens& context) {
    return context.back() == 100 ? 500 : context.back() + 1;
  });
  const LookaheadShape shape = {.window = 8, .ngram = 4, .guesses = 4};
  Lookahead lookahead(shape, vocab_size);
  Tokens tokens = {500, 1};
  lookahead.Begin({.tokens = tokens});
  while (tokens.back() < 500 || tokens.size() < 100) {
    target.Step(BudgetFor(shape), lookahead, tokens);
  }
  const size_t size = tokens.size();
  for (int32_t step = 0; step < 10; ++step) target.Step(BudgetFor(shape), lookahead, tokens);
  EXPECT_EQ(tokens.size(), size + 40);  // three of an n-gram and the bonus token, every time
}

TEST(Lookahead, AnyBudgetGivesTheSameText) {
  const LookaheadShape shape = {.window = 5, .ngram = 4, .guesses = 5};
  Tokens plain = {5, 9, 2, 17, 33};
  while (plain.size() < 2000) plain.push_back(NextToken(plain));
  std::mt19937 generator(1);
  for (int32_t round = 0; round < 5; ++round) {
    Lookahead lookahead(shape, kVocabSize);
    FakeTarget target = FakeTarget::Of(kVocabSize, NextToken);
    Tokens tokens(plain.begin(), plain.begin() + 5);
    lookahead.Begin({.tokens = tokens});
    for (int32_t step = 0; step < 200; ++step) {
      // Zero and one node, one level, one child: all of it happens near the end of a context.
      const DraftBudget budget = {.max_tokens = static_cast<int32_t>(generator() % 30),
                                  .max_depth = static_cast<int32_t>(generator() % 9),
                                  .max_width = 1 + static_cast<int32_t>(generator() % 8)};
      const DraftTree tree = target.Step(budget, lookahead, tokens);
      ASSERT_STREQ(BrokenPromise(tree, budget, kVocabSize), "") << "step " << step;
      ASSERT_LE(tokens.size(), plain.size());
      ASSERT_TRUE(std::equal(tokens.begin(), tokens.end(), plain.begin()));
    }
    EXPECT_GT(tokens.size(), 230u);
    EXPECT_EQ(lookahead.levels().size(), 3u);  // the window filled up all the same
  }
}

TEST(Lookahead, NodesThatWereNotSubmittedGiveNothing) {
  const LookaheadShape shape = {.window = 4, .ngram = 3, .guesses = 2};
  Lookahead lookahead(shape, kVocabSize);
  FakeTarget target = FakeTarget::Of(kVocabSize, NextToken);
  Tokens tokens = {5, 9, 2, 17, 33};
  lookahead.Begin({.tokens = tokens});
  target.Step(BudgetFor(shape), lookahead, tokens);
  ASSERT_EQ(lookahead.levels().size(), 2u);
  const Tokens last_level = lookahead.levels()[1];
  const NgramPool pool_before = lookahead.pool();

  // Another drafter's tree took all the room: the root alone was verified.
  const DraftTree tree = lookahead.Draft({.tokens = tokens}, BudgetFor(shape));
  ASSERT_FALSE(tree.empty());
  const Tokens root_context = tokens;
  tokens.push_back(NextToken(tokens));
  const VerifiedTree verified = target.Verify(root_context, {});
  lookahead.Observe({.tokens = tokens}, tree, verified, {.nodes = {}, .tokens = {tokens.back()}},
                    std::vector<int32_t>(tree.nodes.size(), -1));
  EXPECT_EQ(lookahead.levels()[1], last_level);  // every column kept its last token
  for (int32_t key = 0; key < kVocabSize; ++key) {
    // The text's own n-gram is all that may be new.
    if (key == tokens[tokens.size() - 3]) continue;
    EXPECT_EQ(lookahead.pool().NumValues(key), pool_before.NumValues(key)) << key;
  }
}

TEST(Lookahead, PoolStaysWithinItsCapAfterTenThousandRequests) {
  const int32_t vocab_size = 100000;
  const LookaheadShape shape = {.window = 3, .ngram = 3, .guesses = 3};
  Lookahead lookahead(shape, vocab_size);
  std::mt19937 generator(1);
  size_t bytes_after_half = 0;
  for (int32_t request = 0; request < 10000; ++request) {
    Tokens tokens(20);
    for (int32_t& token : tokens) token = static_cast<int32_t>(generator() % vocab_size);
    lookahead.Begin({.tokens = tokens});
    for (int32_t i = 0; i < 5; ++i) {
      lookahead.Draft({.tokens = tokens}, BudgetFor(shape));
      tokens.push_back(static_cast<int32_t>(generator() % vocab_size));
      lookahead.Observe({.tokens = tokens}, {}, {}, {.nodes = {}, .tokens = {tokens.back()}}, {});
    }
    if (request == 5000) bytes_after_half = lookahead.pool().allocated_bytes();
  }
  EXPECT_EQ(lookahead.pool().num_keys(), Lookahead::kMostKeys);
  EXPECT_EQ(lookahead.pool().allocated_bytes(), bytes_after_half);
}

TEST(Lookahead, ImpossibleShapesAreRefusedB45) {
  EXPECT_TRUE(ValidateLookaheadShape({}).ok());
  for (const LookaheadShape& shape :
       {LookaheadShape{.window = 0}, LookaheadShape{.window = 65}, LookaheadShape{.ngram = 1},
        LookaheadShape{.ngram = 17}, LookaheadShape{.guesses = 0}, LookaheadShape{.guesses = 65}}) {
    EXPECT_EQ(ValidateLookaheadShape(shape).code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tahmin
