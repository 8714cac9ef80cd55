#include "draft/suffix_automaton.h"

#include <algorithm>
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tahmin {
namespace {

using Tokens = std::vector<int32_t>;

// What is promised of one string, counted by looking at every position.
struct SlowString {
  int32_t occurrences = 0;
  int32_t latest_end = 0;
  std::map<int32_t, std::pair<int32_t, int32_t>> next;  // token -> how often, where last

  int32_t Continuations() const {
    int32_t sum = 0;
    for (const auto& [token, count] : next) sum += count.first;
    return sum;
  }
  // The most frequent first, among equals the latest.
  Tokens Top() const {
    std::vector<std::pair<std::pair<int32_t, int32_t>, int32_t>> order;
    for (const auto& [token, count] : next) order.push_back({count, token});
    std::sort(order.rbegin(), order.rend());
    Tokens top;
    for (size_t i = 0; i < order.size() && i < SuffixAutomaton::kTopEdges; ++i) {
      top.push_back(order[i].second);
    }
    return top;
  }
};

std::map<Tokens, SlowString> AllStrings(std::span<const int32_t> text) {
  std::map<Tokens, SlowString> strings;
  const int32_t size = static_cast<int32_t>(text.size());
  for (int32_t end = 1; end <= size; ++end) {
    for (int32_t n = 1; n <= std::min(end, SuffixAutomaton::kLongestMatch); ++n) {
      SlowString& entry = strings[Tokens(text.begin() + end - n, text.begin() + end)];
      ++entry.occurrences;
      entry.latest_end = end;
      if (end == size) continue;
      ++entry.next[text[end]].first;
      entry.next[text[end]].second = end;
    }
  }
  return strings;
}

SuffixMatch Find(const SuffixAutomaton& automaton, std::span<const int32_t> string) {
  SuffixMatch match;
  for (int32_t token : string) match = automaton.Extend(match, token);
  return match;
}

int32_t SlowOwnEnd(const std::map<Tokens, SlowString>& strings, std::span<const int32_t> text) {
  for (int32_t n =
           std::min<int32_t>(static_cast<int32_t>(text.size()), SuffixAutomaton::kLongestMatch);
       n > 0; --n) {
    if (strings.at(Tokens(text.end() - n, text.end())).occurrences > 1) return n;
  }
  return 0;
}

void ExpectExact(const SuffixAutomaton& automaton, std::span<const int32_t> text) {
  ASSERT_EQ(automaton.size(), static_cast<int32_t>(text.size()));
  const std::map<Tokens, SlowString> strings = AllStrings(text);
  for (const auto& [string, expected] : strings) {
    const SuffixMatch match = Find(automaton, string);
    ASSERT_EQ(match.length, static_cast<int32_t>(string.size()));
    ASSERT_EQ(automaton.Occurrences(match), expected.occurrences);
    ASSERT_EQ(automaton.LatestEnd(match), expected.latest_end);
    ASSERT_EQ(automaton.Continuations(match), expected.Continuations());
    for (int32_t token = -1; token < 9; ++token) {
      const auto next = expected.next.find(token);
      ASSERT_EQ(automaton.Continuations(match, token),
                next == expected.next.end() ? 0 : next->second.first);
    }
    Tokens top;
    for (const auto& edge : automaton.TopEdges(match)) top.push_back(edge.token);
    ASSERT_EQ(top, expected.Top());
  }
  const int32_t own_end = SlowOwnEnd(strings, text);
  ASSERT_EQ(automaton.OwnEnd().length, own_end);
  const SuffixMatch found = Find(automaton, text.last(own_end));
  ASSERT_EQ(automaton.OwnEnd().state, found.state);
}

Tokens RandomText(std::mt19937& random, int32_t alphabet, int32_t size) {
  Tokens text;
  for (int32_t i = 0; i < size; ++i) {
    text.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(alphabet)));
  }
  return text;
}

TEST(SuffixAutomaton, CountsEqualThoseOfAllOccurrencesWhileTheTextGrows) {
  std::mt19937 random(1);
  for (int32_t round = 0; round < 1000; ++round) {
    const Tokens text = RandomText(random, 1 + round % 8, 1 + static_cast<int32_t>(random() % 40));
    SuffixAutomaton automaton;
    const size_t half = text.size() / 2;
    for (size_t i = 0; i < text.size(); ++i) {
      automaton.Append(text[i]);
      if (i + 1 != half) continue;
      ExpectExact(automaton, std::span(text).first(half));
      if (HasFatalFailure()) FAIL() << "half of text " << round;
    }
    ExpectExact(automaton, text);
    if (HasFatalFailure()) FAIL() << "text " << round;
  }
}

TEST(SuffixAutomaton, RepetitionsLongerThanWhatIsCountedAreExactToo) {
  std::mt19937 random(2);
  Tokens fibonacci = {0};
  for (Tokens before = {1}; fibonacci.size() < 200;) {
    Tokens longer = fibonacci;
    longer.insert(longer.end(), before.begin(), before.end());
    before = std::exchange(fibonacci, longer);
  }
  std::vector<Tokens> texts = {Tokens(150, 5), fibonacci};
  for (int32_t period : {2, 3, 7, 40, 70}) {
    const Tokens unit = RandomText(random, 6, period);
    Tokens text;
    for (int32_t i = 0; i < 220; ++i) {
      text.push_back(random() % 50 == 0 ? 8 : unit[static_cast<size_t>(i % period)]);
    }
    texts.push_back(text);
  }
  for (const Tokens& text : texts) {
    SuffixAutomaton automaton;
    for (int32_t token : text) automaton.Append(token);
    ExpectExact(automaton, text);
    if (HasFatalFailure()) FAIL() << "text of " << text.size();
  }
}

TEST(SuffixAutomaton, MatchOfAnotherTextIsItsLongestSuffixThatOccurs) {
  std::mt19937 random(3);
  for (int32_t round = 0; round < 300; ++round) {
    const int32_t alphabet = 2 + round % 4;
    Tokens text = RandomText(random, alphabet, 60);
    Tokens other = RandomText(random, alphabet, 20);
    other.insert(other.end(), text.begin() + 10, text.begin() + 25);
    SuffixAutomaton automaton;
    SuffixMatch match;
    for (size_t i = 0; i < other.size(); ++i) {
      // The text may grow between two tokens: states are parted, the match stays valid.
      for (int32_t more = 0; more < 2; ++more) automaton.Append(text[(2 * i + more) % 60]);
      match = automaton.Extend(match, other[i]);
      const Tokens string(other.begin() + static_cast<int64_t>(i) + 1 - match.length,
                          other.begin() + static_cast<int64_t>(i) + 1);
      ASSERT_EQ(Find(automaton, string).state, match.state);
    }
    for (int32_t token : text) automaton.Append(token);
    match = {};
    for (size_t i = 0; i < other.size(); ++i) {
      match = automaton.Extend(match, other[i]);
      const std::span<const int32_t> so_far = std::span(other).first(i + 1);
      size_t longest = i + 1;
      Tokens whole(text.begin(), text.end());
      Tokens grown;
      for (size_t k = 0; k < 2 * other.size(); ++k) grown.push_back(text[k % 60]);
      grown.insert(grown.end(), whole.begin(), whole.end());
      while (std::search(grown.begin(), grown.end(), so_far.end() - static_cast<int64_t>(longest),
                         so_far.end()) == grown.end()) {
        --longest;
      }
      ASSERT_EQ(static_cast<size_t>(match.length), longest) << "text " << round << " token " << i;
    }
  }
}

TEST(SuffixAutomaton, ShorterMatchesOccurMoreOften) {
  SuffixAutomaton automaton;
  for (int32_t token : {1, 2, 3, 0, 2, 3, 0, 3, 0, 1, 2, 3}) automaton.Append(token);
  SuffixMatch match = automaton.OwnEnd();
  EXPECT_EQ(match.length, 3);
  EXPECT_EQ(automaton.Occurrences(match), 2);
  EXPECT_EQ(automaton.Continuations(match), 1);
  match = automaton.Shorter(match);
  EXPECT_EQ(match.length, 2);
  EXPECT_EQ(automaton.Occurrences(match), 3);
  match = automaton.Shorter(match);
  EXPECT_EQ(match.length, 1);
  EXPECT_EQ(automaton.Occurrences(match), 4);
  EXPECT_EQ(automaton.Shorter(match).length, 0);
  EXPECT_EQ(automaton.Extend(automaton.OwnEnd(), 77).length, 0);
}

TEST(SuffixAutomaton, ClearForgetsEverything) {
  SuffixAutomaton automaton;
  const int64_t empty_bytes = automaton.BytesUsed();
  for (int32_t i = 0; i < 20000; ++i) automaton.Append(i * 7 % 1000);
  EXPECT_GT(automaton.BytesUsed(), 2 * empty_bytes);
  automaton.Clear();
  EXPECT_EQ(automaton.size(), 0);
  EXPECT_LE(automaton.BytesUsed(), empty_bytes + 1000);
  EXPECT_EQ(automaton.OwnEnd().length, 0);
  for (int32_t token : {4, 4}) automaton.Append(token);
  ExpectExact(automaton, Tokens{4, 4});
}

TEST(SuffixAutomaton, MemoryIsBoundedByTheNumberOfTokens) {
  std::mt19937 random(4);
  constexpr int32_t kTokens = 100000;
  // 2 states of 56 bytes and 3 edges of 16 bytes with their index (16 bytes each, when it has just
  // doubled) a token, and the chunks begun.
  constexpr int64_t kMost = kTokens * (2 * 56 + 3 * (16 + 16)) + (1 << 18);
  for (int32_t alphabet : {1, 2, 5, 50, 1000, 100000}) {
    SuffixAutomaton automaton;
    for (int32_t token : RandomText(random, alphabet, kTokens)) automaton.Append(token);
    EXPECT_LE(automaton.BytesUsed(), kMost) << alphabet;
    EXPECT_GE(automaton.BytesUsed(), kTokens * 56) << alphabet;
  }
}

}  // namespace
}  // namespace tahmin
