#include "draft/prompt_lookup.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace tahmin {
namespace {

constexpr DraftBudget kFour = {.max_tokens = 4, .max_depth = 4};

std::vector<int32_t> TokensOf(const DraftTree& tree) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < tree.size(); ++i) {
    EXPECT_EQ(tree.nodes[i].parent, i - 1);  // a chain
    tokens.push_back(tree.nodes[i].token);
  }
  return tokens;
}

// Begins with `prompt` and drafts at once.
std::vector<int32_t> DraftAfter(const std::vector<int32_t>& prompt, int32_t min_ngram = 2,
                                int32_t max_ngram = 4) {
  const auto lookup = MakePromptLookup(min_ngram, max_ngram);
  const SequenceView view{.tokens = prompt};
  lookup->Begin(view);
  return TokensOf(lookup->Draft(view, kFour));
}

// The definition, word for word: longest n-gram first, latest earlier occurrence.
std::vector<int32_t> SlowLookup(const std::vector<int32_t>& tokens, int32_t min_ngram,
                                int32_t max_ngram, int32_t length) {
  const auto size = static_cast<int32_t>(tokens.size());
  for (int32_t n = std::min(max_ngram, size - 1); n >= min_ngram; --n) {
    for (int32_t end = size - 1; end >= n; --end) {
      if (!std::equal(tokens.end() - n, tokens.end(), tokens.begin() + end - n)) continue;
      std::vector<int32_t> draft;
      for (int32_t i = 0; i < length; ++i) {
        draft.push_back(end + i < size ? tokens[end + i] : draft[end + i - size]);
      }
      return draft;
    }
  }
  return {};
}

TEST(PromptLookup, CopiesWhatFollowedTheLatestEarlierOccurrence) {
  const std::vector<int32_t> expected = {7, 8, 9, 1};
  EXPECT_EQ(DraftAfter({1, 2, 5, 6, 0, 0, 1, 2, 7, 8, 9, 1, 2}), expected);
}

TEST(PromptLookup, LongerNgramsWin) {
  // "2 3" was last followed by 9, but "1 2 3" by 4.
  const std::vector<int32_t> expected = {4, 0, 2, 3};
  EXPECT_EQ(DraftAfter({1, 2, 3, 4, 0, 2, 3, 9, 5, 1, 2, 3}), expected);
}

TEST(PromptLookup, NeverMatchesItself) { EXPECT_TRUE(DraftAfter({1, 2, 3, 4, 5}).empty()); }

TEST(PromptLookup, RepetitionGoesOnIntoTheDraft) {
  const std::vector<int32_t> twos = {2, 2, 2, 2};
  EXPECT_EQ(DraftAfter({1, 2, 2, 2}), twos);
  const std::vector<int32_t> pairs = {8, 9, 8, 9};
  EXPECT_EQ(DraftAfter({8, 9, 8, 9}), pairs);
}

TEST(PromptLookup, PromptShorterThanTheNgramB34) {
  EXPECT_TRUE(DraftAfter({1}).empty());
  EXPECT_TRUE(DraftAfter({1, 1}, 2, 4).empty());
  EXPECT_TRUE(DraftAfter({1, 1, 1}, 3, 4).empty());
  EXPECT_FALSE(DraftAfter({1, 1}, 1, 4).empty());
}

TEST(PromptLookup, EqualsTheDefinitionWhileTheTextGrowsB27) {
  // 500 tokens in which hardly anything repeats, then a copied passage.
  uint32_t state = 1;
  std::vector<int32_t> text;
  for (int32_t i = 0; i < 500; ++i) {
    state = state * 1664525u + 1013904223u;
    text.push_back(static_cast<int32_t>(state >> 8) % 1000);
  }
  for (int32_t i = 0; i < 100; ++i) text.push_back(text[100 + i]);
  for (int32_t i = 0; i < 100; ++i) text.push_back(static_cast<int32_t>(i * i) % 7);

  for (const auto& [shortest, longest] : {std::pair{1, 3}, std::pair{2, 4}, std::pair{3, 3}}) {
    const auto lookup = MakePromptLookup(shortest, longest);
    lookup->Begin({.tokens = std::span<const int32_t>(text).first(20)});
    for (size_t size = 20; size <= text.size(); ++size) {
      const SequenceView view{.tokens = std::span<const int32_t>(text).first(size)};
      if (size > 20) lookup->Observe(view, {}, {}, {}, {});
      const std::vector<int32_t> so_far(text.begin(), text.begin() + size);
      ASSERT_EQ(TokensOf(lookup->Draft(view, kFour)), SlowLookup(so_far, shortest, longest, 4))
          << size << " tokens, n-grams of " << shortest << " to " << longest;
    }
  }
}

TEST(PromptLookup, AnotherTextForgetsTheFirst) {
  const auto lookup = MakePromptLookup(2, 4);
  const std::vector<int32_t> first = {1, 2, 3, 4, 1, 2};
  const std::vector<int32_t> other = {5, 6, 7, 1, 2};
  lookup->Begin({.tokens = first});
  EXPECT_FALSE(lookup->Draft({.tokens = first}, kFour).empty());
  lookup->Begin({.tokens = other});
  EXPECT_TRUE(lookup->Draft({.tokens = other}, kFour).empty());
  // A chat that goes on keeps what it knows.
  std::vector<int32_t> longer = other;
  longer.insert(longer.end(), {5, 6});
  lookup->Begin({.tokens = longer});
  const std::vector<int32_t> expected = {7, 1, 2, 5};
  EXPECT_EQ(TokensOf(lookup->Draft({.tokens = longer}, kFour)), expected);
}

// A request that repeats all but the last token of the one before: the index must not hold the end
// of the text as something that came earlier.
TEST(PromptLookup, NeverMatchesItselfAfterALongerText) {
  const auto lookup = MakePromptLookup(2, 4);
  const std::vector<int32_t> longer = {1, 2, 3, 4, 5, 6}, shorter = {1, 2, 3, 4, 5};
  lookup->Begin({.tokens = longer});
  lookup->Begin({.tokens = shorter});
  EXPECT_TRUE(lookup->Draft({.tokens = shorter}, kFour).empty());
}

TEST(PromptLookup, KeepsToTheBudget) {
  const auto lookup = MakePromptLookup(2, 4);
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 1, 2};
  lookup->Begin({.tokens = tokens});
  EXPECT_EQ(lookup->Draft({.tokens = tokens}, {.max_tokens = 3, .max_depth = 2}).size(), 2);
  EXPECT_EQ(lookup->Draft({.tokens = tokens}, {.max_tokens = 1, .max_depth = 2}).size(), 1);
  EXPECT_EQ(lookup->Draft({.tokens = tokens}, {}).size(), 0);
}

TEST(PromptLookup, ConfidenceGrowsWithTheMatchAndAlongTheDraft) {
  const auto confidences = [](const std::vector<int32_t>& tokens, const DraftBudget& budget) {
    const auto lookup = MakePromptLookup(2, 4);
    lookup->Begin({.tokens = tokens});
    std::vector<float> found;
    for (const DraftNode& node : lookup->Draft({.tokens = tokens}, budget).nodes) {
      found.push_back(node.confidence);
    }
    return found;
  };
  // Two tokens agree, then three; six agree though only four are searched.
  const std::vector<float> after_two = {2 / 4.5f, 3 / 5.5f, 4 / 6.5f, 5 / 7.5f};
  EXPECT_EQ(confidences({1, 2, 7, 8, 9, 3, 0, 1, 2}, kFour), after_two);
  const std::vector<float> after_six = {6 / 8.5f, 7 / 9.5f, 8 / 10.5f, 9 / 11.5f};
  EXPECT_EQ(confidences({1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6}, kFour), after_six);
  // A drafter that has to be sure stops where the whole path is too unlikely.
  DraftBudget picky = kFour;
  picky.min_survival = 0.3f;
  EXPECT_EQ(confidences({1, 2, 7, 8, 9, 3, 0, 1, 2}, picky).size(), 1u);
  picky.min_survival = 0.5f;
  EXPECT_TRUE(confidences({1, 2, 7, 8, 9, 3, 0, 1, 2}, picky).empty());
}

}  // namespace
}  // namespace tahmin
