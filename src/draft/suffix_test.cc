#include "draft/suffix.h"

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "draft/continuation_estimate.h"
#include "gtest/gtest.h"

namespace tahmin {
namespace {

using Tokens = std::vector<int32_t>;

constexpr int32_t kVocabSize = 1000;
constexpr DraftBudget kChainOfFive = {.max_tokens = 5, .max_depth = 5, .max_width = 1};
constexpr DraftBudget kTreeOfEight = {.max_tokens = 8, .max_depth = 6, .max_width = 3};

std::unique_ptr<SuffixStore> MakeStore() {
  auto store = SuffixStore::Create({.max_bytes = 8 << 20, .vocab_size = kVocabSize});
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

DraftTree DraftAfter(const Tokens& tokens, const DraftBudget& budget,
                     const SuffixStore* store = nullptr) {
  const auto suffix = MakeSuffix(store, kVocabSize);
  suffix->Begin({.tokens = tokens});
  return suffix->Draft({.tokens = tokens}, budget);
}

Tokens TokensOf(const DraftTree& tree) {
  Tokens tokens;
  for (const DraftNode& node : tree.nodes) tokens.push_back(node.token);
  return tokens;
}

// --- The drafter by its definition, from positions alone. ---

// How often `string` occurs in `text`, and how often `next` follows it (-1: anything).
struct SlowCount {
  int32_t occurrences = 0, followed = 0, followed_by_next = 0;
};
SlowCount CountIn(const Tokens& text, std::span<const int32_t> string, int32_t next) {
  SlowCount count;
  for (size_t end = string.size(); end <= text.size(); ++end) {
    if (!std::equal(
            string.begin(), string.end(),
            text.begin() + static_cast<int64_t>(end) - static_cast<int64_t>(string.size()))) {
      continue;
    }
    ++count.occurrences;
    if (end == text.size()) continue;
    ++count.followed;
    if (text[end] == next) ++count.followed_by_next;
  }
  return count;
}

struct SlowContext {
  int32_t text = 0, length = 0;
};

// The longest match, then every shorter one that occurs more often. The sequence's own end only
// counts where it occurs elsewhere too, unless draft tokens are behind it.
std::vector<SlowContext> ContextsIn(const Tokens& text, int32_t text_index, const Tokens& end,
                                    bool is_own_end) {
  std::vector<SlowContext> contexts;
  int32_t occurrences = is_own_end ? 1 : 0;
  for (int32_t n =
           std::min<int32_t>(static_cast<int32_t>(end.size()), SuffixAutomaton::kLongestMatch);
       n > 0; --n) {
    const int32_t found = CountIn(text, std::span(end).last(n), -1).occurrences;
    if (found > occurrences) contexts.push_back({text_index, n});
    occurrences = std::max(occurrences, found);
  }
  return contexts;
}

struct SlowChild {
  double probability = 0;
  int32_t token = 0;
};
struct SlowExpansion {
  int32_t longest = 0;
  std::vector<SlowChild> children;  // the likeliest first
};

SlowExpansion ExpandSlowly(const std::vector<Tokens>& texts, const Tokens& end, bool is_own_end) {
  std::vector<SlowContext> contexts;
  for (size_t i = 0; i < texts.size(); ++i) {
    for (const SlowContext& context :
         ContextsIn(texts[i], static_cast<int32_t>(i), end, is_own_end && i == 0)) {
      contexts.push_back(context);
    }
  }
  std::stable_sort(contexts.begin(), contexts.end(),
                   [](const auto& a, const auto& b) { return a.length > b.length; });
  SlowExpansion expansion;
  if (!contexts.empty()) expansion.longest = contexts[0].length;
  std::set<int32_t> tokens;
  std::vector<std::pair<SlowContext, double>> weighted;
  double left = 1;
  for (const SlowContext& context : contexts) {
    if (static_cast<int32_t>(weighted.size()) == kMostContexts || left <= kNegligible) break;
    const std::span<const int32_t> string = std::span(end).last(context.length);
    const double count = CountIn(texts[context.text], string, -1).followed;
    const double strength = PriorStrength(context.length);
    if (count == 0) continue;
    weighted.push_back({context, left / (count + strength)});
    left *= strength / (count + strength);
    for (int32_t token = 0; token < 10; ++token) {
      if (CountIn(texts[context.text], string, token).followed_by_next > 0) tokens.insert(token);
    }
  }
  for (int32_t token : tokens) {
    SlowChild child = {0, token};
    for (const auto& [context, weight] : weighted) {
      child.probability +=
          weight *
          CountIn(texts[context.text], std::span(end).last(context.length), token).followed_by_next;
    }
    expansion.children.push_back(child);
  }
  std::stable_sort(expansion.children.begin(), expansion.children.end(),
                   [](const auto& a, const auto& b) { return a.probability > b.probability; });
  return expansion;
}

struct SlowCandidate {
  double survival = 0, probability = 0;
  int32_t longest = 0, token = 0, parent = kRoot, depth = 0;
};

// texts[0] is the sequence. Best first: the likeliest path, then the longer match, then the lower
// id, then the earlier parent.
DraftTree SlowDraft(const std::vector<Tokens>& texts, const DraftBudget& budget) {
  DraftTree tree;
  std::vector<SlowCandidate> candidates;
  std::vector<std::pair<Tokens, SlowCandidate>> nodes;
  const auto expand = [&](const Tokens& end, const SlowCandidate& parent, int32_t index) {
    if (parent.depth == budget.max_depth) return;
    const SlowExpansion expansion = ExpandSlowly(texts, end, index == kRoot);
    for (int32_t i = 0;
         i < std::min<int32_t>(budget.max_width, static_cast<int32_t>(expansion.children.size()));
         ++i) {
      const auto& [probability, token] = expansion.children[i];
      const double survival = parent.survival * probability;
      if (survival < kHopelessSurvival) continue;
      candidates.push_back(
          {survival, probability, expansion.longest, token, index, parent.depth + 1});
    }
  };
  expand(texts[0], {.survival = 1}, kRoot);
  while (tree.size() < budget.max_tokens && !candidates.empty()) {
    const auto best = std::max_element(
        candidates.begin(), candidates.end(), [](const SlowCandidate& a, const SlowCandidate& b) {
          return std::tuple(a.survival, a.longest, -a.token, -a.parent) <
                 std::tuple(b.survival, b.longest, -b.token, -b.parent);
        });
    const SlowCandidate chosen = *best;
    candidates.erase(best);
    Tokens end = chosen.parent == kRoot ? texts[0] : nodes[chosen.parent].first;
    end.push_back(chosen.token);
    tree.nodes.push_back({.token = chosen.token,
                          .parent = chosen.parent,
                          .confidence = static_cast<float>(chosen.probability)});
    nodes.push_back({end, chosen});
    expand(end, chosen, tree.size() - 1);
  }
  return tree;
}

void ExpectSameTree(const DraftTree& tree, const DraftTree& expected) {
  ASSERT_EQ(tree.size(), expected.size());
  for (int32_t i = 0; i < tree.size(); ++i) {
    ASSERT_EQ(tree.nodes[i].token, expected.nodes[i].token) << "node " << i;
    ASSERT_EQ(tree.nodes[i].parent, expected.nodes[i].parent) << "node " << i;
    ASSERT_EQ(tree.nodes[i].confidence, expected.nodes[i].confidence) << "node " << i;
  }
}

Tokens RandomText(std::mt19937& random, int32_t alphabet, int32_t size) {
  Tokens text;
  for (int32_t i = 0; i < size; ++i) {
    text.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(alphabet)));
  }
  return text;
}

TEST(Suffix, EqualsTheDefinitionOnAThousandGrowingSequences) {
  std::mt19937 random(5);
  int32_t num_nodes = 0;
  for (int32_t round = 0; round < 1000; ++round) {
    // With the separator as many ids as top edges, so that every continuation is looked at.
    const int32_t alphabet = 1 + round % (SuffixAutomaton::kTopEdges - 1);
    const auto store = MakeStore();
    Tokens store_text;
    const bool has_store = round % 4 != 3;
    for (int32_t output = 0; output < round % 3; ++output) {
      const Tokens tokens = RandomText(random, alphabet, static_cast<int32_t>(random() % 20));
      store->Add(tokens);
      store_text.insert(store_text.end(), tokens.begin(), tokens.end());
      store_text.push_back(SuffixStore::kSeparator);
    }
    const DraftBudget& budget = round % 3 == 0 ? kChainOfFive : kTreeOfEight;
    const auto suffix = MakeSuffix(has_store ? store.get() : nullptr, kVocabSize);
    Tokens tokens = RandomText(random, alphabet, 1 + static_cast<int32_t>(random() % 20));
    suffix->Begin({.tokens = tokens});
    for (int32_t step = 0; step < 3; ++step) {
      const DraftTree tree = suffix->Draft({.tokens = tokens}, budget);
      const Tokens other_text = has_store ? store_text : Tokens{};
      ExpectSameTree(tree, SlowDraft({tokens, other_text}, budget));
      if (HasFatalFailure()) FAIL() << "sequence " << round << ", step " << step;
      num_nodes += tree.size();
      const Tokens more = RandomText(random, alphabet, 1 + static_cast<int32_t>(random() % 5));
      tokens.insert(tokens.end(), more.begin(), more.end());
      suffix->Observe({.tokens = tokens}, tree, {}, {}, {});
    }
  }
  EXPECT_GT(num_nodes, 10000);
}

TEST(Suffix, ChainFollowsTheOnlyOccurrence) {
  const Tokens expected = {7, 8, 9, 1, 2};
  const DraftTree tree =
      DraftAfter({50, 51, 52, 53, 54, 55, 7, 8, 9, 1, 2, 0, 50, 51, 52, 53, 54, 55}, kChainOfFive);
  EXPECT_EQ(TokensOf(tree), expected);
  for (int32_t i = 0; i < tree.size(); ++i) {
    EXPECT_EQ(tree.nodes[i].parent, i - 1);
    EXPECT_FLOAT_EQ(tree.nodes[i].confidence, (6.0f + i) / (9.0f + i));
  }
}

TEST(Suffix, TreeBranchesWhereTheTextDid) {
  // 1 2 3 was followed by 4 twice and by 5 once; 4 always by 6.
  const Tokens tokens = {1, 2, 3, 4, 6, 0, 1, 2, 3, 5, 9, 1, 2, 3, 4, 6, 8, 1, 2, 3};
  const DraftTree tree = DraftAfter(tokens, {.max_tokens = 4, .max_depth = 2, .max_width = 2});
  ASSERT_EQ(tree.size(), 4);
  EXPECT_EQ(tree.nodes[0].token, 4);
  EXPECT_EQ(tree.nodes[0].parent, kRoot);
  EXPECT_EQ(tree.nodes[1].token, 6);
  EXPECT_EQ(tree.nodes[1].parent, 0);
  EXPECT_EQ(tree.FindChild(kRoot, 5), 2);
  EXPECT_EQ(tree.nodes[3].parent, 2);
  EXPECT_EQ(tree.nodes[3].token, 9);
  EXPECT_NEAR(tree.nodes[0].confidence / tree.nodes[2].confidence, 2, 1e-5);
}

TEST(Suffix, RepetitionGoesOnIntoTheDraft) {
  const Tokens twos = {2, 2, 2, 2, 2};
  EXPECT_EQ(TokensOf(DraftAfter({1, 2, 2, 2, 2}, kChainOfFive)), twos);
  const Tokens pairs = {8, 9, 8, 9, 8};
  EXPECT_EQ(TokensOf(DraftAfter({8, 9, 8, 9, 8, 9}, kChainOfFive)), pairs);
}

TEST(Suffix, RepetitionHeavyTextsAreDraftedWithConfidence) {
  for (int32_t period : {1, 2, 5, 17, 60, 100}) {
    Tokens tokens;
    for (int32_t i = 0; i < 1000; ++i) tokens.push_back(i % period);
    const DraftTree tree = DraftAfter(tokens, {.max_tokens = 32, .max_depth = 32, .max_width = 1});
    ASSERT_EQ(tree.size(), 32) << period;
    for (int32_t i = 0; i < 32; ++i) {
      ASSERT_EQ(tree.nodes[i].token, (1000 + i) % period) << period;
      ASSERT_GT(tree.nodes[i].confidence, 0.9f) << period;
      ASSERT_LE(tree.nodes[i].confidence, 1.0f) << period;
    }
  }
}

TEST(Suffix, NothingKnownNothingDraftedB34) {
  EXPECT_TRUE(DraftAfter({1, 2, 3, 4, 5}, kChainOfFive).empty());
  EXPECT_TRUE(DraftAfter({1}, kChainOfFive).empty());
  EXPECT_TRUE(DraftAfter({}, kChainOfFive).empty());
}

TEST(Suffix, ReplacedSequenceIsForgotten) {
  const auto suffix = MakeSuffix(nullptr, kVocabSize);
  const Tokens first = {1, 2, 3, 4, 1, 2, 3};
  const Tokens other = {5, 6, 7, 1, 2, 3};
  suffix->Begin({.tokens = first});
  EXPECT_FALSE(suffix->Draft({.tokens = first}, kChainOfFive).empty());
  suffix->Begin({.tokens = other});
  EXPECT_TRUE(suffix->Draft({.tokens = other}, kChainOfFive).empty());
  // A chat that goes on keeps what it knows; one that was cut short is a replaced one.
  Tokens longer = other;
  longer.insert(longer.end(), {5, 6});
  suffix->Begin({.tokens = longer});
  ExpectSameTree(suffix->Draft({.tokens = longer}, kChainOfFive), DraftAfter(longer, kChainOfFive));
  const Tokens shorter(longer.begin(), longer.end() - 1);
  suffix->Begin({.tokens = shorter});
  ExpectSameTree(suffix->Draft({.tokens = shorter}, kChainOfFive),
                 DraftAfter(shorter, kChainOfFive));
}

TEST(Suffix, KeepsToTheBudgetAndNeverRepeatsASibling) {
  std::mt19937 random(6);
  const auto store = MakeStore();
  for (int32_t i = 0; i < 20; ++i) store->Add(RandomText(random, 12, 50));
  const auto suffix = MakeSuffix(store.get(), kVocabSize);
  int32_t num_full = 0;
  for (int32_t round = 0; round < 500; ++round) {
    const Tokens tokens = RandomText(random, 2 + round % 12, 200);
    suffix->Begin({.tokens = tokens});
    const DraftBudget budget = {.max_tokens = static_cast<int32_t>(random() % 33),
                                .max_depth = static_cast<int32_t>(random() % 9),
                                .max_width = 1 + static_cast<int32_t>(random() % 6)};
    const DraftTree tree = suffix->Draft({.tokens = tokens}, budget);
    ASSERT_LE(tree.size(), budget.max_tokens);
    num_full += tree.size() == budget.max_tokens ? 1 : 0;
    std::vector<int32_t> depth, width(tree.nodes.size() + 1);
    std::set<std::pair<int32_t, int32_t>> seen;
    for (int32_t i = 0; i < tree.size(); ++i) {
      const DraftNode& node = tree.nodes[i];
      ASSERT_LT(node.parent, i);
      depth.push_back(node.parent == kRoot ? 1 : depth[node.parent] + 1);
      ASSERT_LE(depth.back(), budget.max_depth);
      ASSERT_LE(++width[node.parent + 1], budget.max_width);
      ASSERT_TRUE(seen.insert({node.parent, node.token}).second);
      ASSERT_GE(node.token, 0);
      ASSERT_GT(node.confidence, 0.0f);
      ASSERT_LE(node.confidence, 1.0f);
      ASSERT_TRUE(node.q.entries.empty());
    }
  }
  EXPECT_GT(num_full, 50);
}

TEST(Suffix, StopsWhereThePathIsTooUnlikely) {
  // Forty tokens followed 1, once each.
  Tokens tokens;
  for (int32_t i = 0; i < 40; ++i) tokens.insert(tokens.end(), {1, 100 + i});
  tokens.push_back(1);
  EXPECT_TRUE(DraftAfter(tokens, kTreeOfEight).empty());

  const Tokens copied = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4};
  const int32_t all = DraftAfter(copied, kChainOfFive).size();
  EXPECT_EQ(all, 5);
  DraftBudget picky = kChainOfFive;
  picky.min_survival = 0.25f;  // 4/7 * 5/8 * 6/9 = 0.238
  EXPECT_EQ(DraftAfter(copied, picky).size(), 2);
  picky.scale.acceptance.fill(1.0f);  // the controller knows that this drafter is always right
  EXPECT_EQ(DraftAfter(copied, picky).size(), 5);
}

TEST(Suffix, NeverProposesIdsOutsideTheVocabulary) {
  const Tokens tokens = {1, 2, 3, kVocabSize, 5, 1, 2, 3};
  EXPECT_TRUE(DraftAfter(tokens, kChainOfFive).empty());
}

TEST(Suffix, EarlierOutputsAreDraftedFrom) {
  const auto store = MakeStore();
  const Tokens question = {40, 41, 42, 43};
  EXPECT_TRUE(DraftAfter(question, kChainOfFive, store.get()).empty());
  store->Add(Tokens{9, 40, 41, 42, 43, 44, 45, 46, 47});
  const Tokens expected = {44, 45, 46, 47};  // and then that output ended
  EXPECT_EQ(TokensOf(DraftAfter(question, kChainOfFive, store.get())), expected);
}

TEST(Suffix, OutputsMayBeAddedAndDroppedBetweenTwoDrafts) {
  std::mt19937 random(7);
  auto store =
      *SuffixStore::Create({.max_bytes = SuffixStore::kSmallestBytes, .vocab_size = kVocabSize});
  Tokens tokens = RandomText(random, 9, 30);
  const auto suffix = MakeSuffix(store.get(), kVocabSize);
  suffix->Begin({.tokens = tokens});
  for (int32_t step = 0; step < 300; ++step) {
    store->Add(RandomText(random, 9, 200));
    const DraftTree tree = suffix->Draft({.tokens = tokens}, kTreeOfEight);
    ExpectSameTree(tree, DraftAfter(tokens, kTreeOfEight, store.get()));
    if (HasFatalFailure()) FAIL() << "step " << step;
    tokens.push_back(static_cast<int32_t>(random() % 9));
    suffix->Observe({.tokens = tokens}, tree, {}, {}, {});
  }
}

}  // namespace
}  // namespace tahmin
