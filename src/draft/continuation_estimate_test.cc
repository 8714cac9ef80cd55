#include "draft/continuation_estimate.h"

#include <vector>

#include "gtest/gtest.h"

namespace tahmin {
namespace {

SuffixAutomaton AutomatonOf(const std::vector<int32_t>& text) {
  SuffixAutomaton automaton;
  for (int32_t token : text) automaton.Append(token);
  return automaton;
}

double ProbabilityOf(const ContinuationList& list, int32_t token) {
  for (const Continuation& item : list.view()) {
    if (item.token == token) return item.probability;
  }
  return 0;
}

TEST(ContinuationEstimate, IsTheRecursionOverMatchLengths) {
  // The end, 1 2: followed by 5 once. 2 alone: by 5 once, by 6 twice.
  const SuffixAutomaton text = AutomatonOf({1, 2, 5, 0, 2, 6, 3, 2, 6, 1, 2});
  const TextMatch match = {&text, text.OwnEnd()};
  ASSERT_EQ(match.match.length, 2);
  const ContinuationList list = EstimateContinuations(std::span(&match, 1));
  ASSERT_EQ(list.size, 2);
  const double strength_1 = PriorStrength(1), strength_2 = PriorStrength(2);
  const double five = 1 / (3 + strength_1), six = 2 / (3 + strength_1);
  EXPECT_NEAR(ProbabilityOf(list, 5), (1 + strength_2 * five) / (1 + strength_2), 1e-12);
  EXPECT_NEAR(ProbabilityOf(list, 6), strength_2 * six / (1 + strength_2), 1e-12);
}

TEST(ContinuationEstimate, OneOccurrenceIsWorthMoreBehindALongMatch) {
  double last = 0;
  for (int32_t length = 1; length <= 40; ++length) {
    std::vector<int32_t> tokens;
    for (int32_t copy = 0; copy < 2; ++copy) {
      tokens.push_back(1000 + copy);
      for (int32_t i = 0; i < length; ++i) tokens.push_back(i);
      if (copy == 0) tokens.push_back(500);
    }
    const SuffixAutomaton text = AutomatonOf(tokens);
    const TextMatch match = {&text, text.OwnEnd()};
    const double probability = ProbabilityOf(EstimateContinuations(std::span(&match, 1)), 500);
    EXPECT_NEAR(probability, length / (length + 3.0), 1e-9);
    EXPECT_GT(probability, last);
    last = probability;
  }
}

TEST(ContinuationEstimate, MoreOccurrencesThatAgreeAreWorthMore) {
  double last = 0;
  std::vector<int32_t> tokens;
  for (int32_t copies = 1; copies < 10; ++copies) {
    tokens.insert(tokens.end(), {100 + copies, 1, 2, 3});
    std::vector<int32_t> text_tokens = tokens;
    text_tokens.insert(text_tokens.end(), {0, 1, 2});
    const SuffixAutomaton text = AutomatonOf(text_tokens);
    const TextMatch match = {&text, text.OwnEnd()};
    const double probability = ProbabilityOf(EstimateContinuations(std::span(&match, 1)), 3);
    EXPECT_GT(probability, last);
    EXPECT_LT(probability, 1);
    last = probability;
  }
}

TEST(ContinuationEstimate, TheFirstTextHasTheLastWord) {
  const SuffixAutomaton first = AutomatonOf({1, 2, 7});
  const SuffixAutomaton second = AutomatonOf({1, 2, 8});
  const auto match_in = [](const SuffixAutomaton& text) {
    return TextMatch{&text, text.Extend(text.Extend({}, 1), 2)};
  };
  const TextMatch matches[] = {match_in(first), match_in(second)};
  const ContinuationList list = EstimateContinuations(matches);
  ASSERT_EQ(list.size, 2);
  EXPECT_EQ(list.items[0].token, 7);
  const double strength = PriorStrength(2);
  EXPECT_NEAR(list.items[0].probability, 1 / (1 + strength), 1e-12);
  EXPECT_NEAR(list.items[1].probability, strength / (1 + strength) / (1 + strength), 1e-12);
  // A longer match in the second text comes before both.
  const SuffixAutomaton longer = AutomatonOf({9, 1, 2, 8});
  const TextMatch with_longer[] = {
      match_in(first), {&longer, longer.Extend(longer.Extend(longer.Extend({}, 9), 1), 2)}};
  EXPECT_EQ(EstimateContinuations(with_longer).items[0].token, 8);
}

TEST(ContinuationEstimate, EqualProbabilitiesAreInOrderOfIds) {
  const SuffixAutomaton text = AutomatonOf({1, 9, 1, 4, 1, 7, 1});
  const TextMatch match = {&text, text.OwnEnd()};
  const ContinuationList list = EstimateContinuations(std::span(&match, 1));
  ASSERT_EQ(list.size, 3);
  EXPECT_EQ(list.items[0].token, 4);
  EXPECT_EQ(list.items[1].token, 7);
  EXPECT_EQ(list.items[2].token, 9);
}

TEST(ContinuationEstimate, EndsOfOutputsAreCountedButNeverProposed) {
  const SuffixAutomaton text = AutomatonOf({1, -1, 1, -1, 1, 5, -1});
  const TextMatch match = {&text, text.Extend({}, 1)};
  const ContinuationList list = EstimateContinuations(std::span(&match, 1));
  ASSERT_EQ(list.size, 1);
  EXPECT_EQ(list.items[0].token, 5);
  EXPECT_NEAR(list.items[0].probability, 1 / (3 + PriorStrength(1)), 1e-12);
}

TEST(ContinuationEstimate, NothingMatchesNothingFollows) {
  EXPECT_EQ(EstimateContinuations({}).size, 0);
  const SuffixAutomaton text = AutomatonOf({1, 2, 3});
  const TextMatch match = {&text, text.OwnEnd()};
  EXPECT_EQ(EstimateContinuations(std::span(&match, 1)).size, 0);
}

}  // namespace
}  // namespace tahmin
