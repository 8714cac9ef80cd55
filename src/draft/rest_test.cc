#include "draft/rest.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "draft/datastore_fixture.h"
#include "draft/datastore_format.h"
#include "gtest/gtest.h"

namespace tahmin {
namespace {

using Path = std::vector<int32_t>;

// The draft as its set of paths with their confidences; fails where it breaks a rule of drafts.
std::map<Path, float> Paths(const DraftTree& tree, const DraftBudget& budget, int32_t vocab_size) {
  std::map<Path, float> paths;
  std::vector<Path> of_node;
  std::map<int32_t, int32_t> num_children;
  EXPECT_LE(tree.size(), std::max(0, budget.max_tokens));
  for (int32_t i = 0; i < tree.size(); ++i) {
    const DraftNode& node = tree.nodes[static_cast<size_t>(i)];
    EXPECT_GE(node.parent, kRoot);
    EXPECT_LT(node.parent, i);
    Path path = node.parent == kRoot ? Path{} : of_node[static_cast<size_t>(node.parent)];
    path.push_back(node.token);
    EXPECT_LE(static_cast<int32_t>(path.size()), budget.max_depth);
    EXPECT_LE(++num_children[node.parent], budget.max_width);
    EXPECT_GE(node.token, 0);
    EXPECT_LT(node.token, vocab_size);
    EXPECT_GT(node.confidence, 0.0f);
    EXPECT_LE(node.confidence, 1.0f);
    EXPECT_FALSE(node.is_probe);
    EXPECT_TRUE(node.q.entries.empty());
    of_node.push_back(path);
    EXPECT_TRUE(paths.emplace(path, node.confidence).second) << "the same path twice";
  }
  return paths;
}

double Doubt(double match_length) { return 18.0 / (match_length * std::sqrt(match_length)); }

// What a node of the trie is made of; the empty path is the root.
struct SlowNode {
  int64_t count = 0;
  uint64_t weight = 0;
  int32_t longest = 0;
};

struct SlowTrie {
  std::map<Path, SlowNode> nodes;
  double explained = 0;
};

// All places where the ending of that length occurs, by scanning every position: what follows each,
// inside its document.
std::vector<Path> SlowHits(const Datastore& store, std::span<const int32_t> ending, int32_t depth) {
  std::vector<Path> hits;
  for (const DatastoreChunk& chunk : store.chunks()) {
    const std::vector<int32_t> text(chunk.entries().begin(), chunk.entries().end());
    for (size_t at = 0; at + ending.size() <= text.size(); ++at) {
      if (!std::equal(ending.begin(), ending.end(), text.begin() + at)) continue;
      const auto from = text.begin() + at + ending.size();
      const auto limit = std::min<int64_t>(depth, text.end() - from);
      hits.emplace_back(from, std::find(from, from + limit, datastore_format::kSeparator));
    }
  }
  return hits;
}

// The definition: the longest ending that occurs, then half of it and so on while much is open.
SlowTrie SlowRest(const Datastore& store, std::span<const int32_t> tokens, int32_t depth) {
  SlowTrie trie;
  int32_t length = std::min(16, static_cast<int32_t>(tokens.size()));
  while (length >= 2 && SlowHits(store, tokens.last(length), depth).empty()) --length;
  double open = 1.0;
  size_t num_known = 0;
  for (; length >= 2 && open >= 0.15; length = length == 2 ? 0 : std::max(2, length / 2)) {
    const std::vector<Path> hits = SlowHits(store, tokens.last(length), depth);
    const double further = static_cast<double>(hits.size() - num_known);
    if (further == 0) continue;
    num_known = hits.size();
    const double part = further / (further + Doubt(length));
    const double count = static_cast<double>(hits.size());
    const auto weight = static_cast<uint32_t>(open * part * (1 << 30) / count);
    open *= 1 - part;
    for (const Path& hit : hits) {
      for (size_t size = 0; size <= hit.size(); ++size) {
        SlowNode& node = trie.nodes[{hit.begin(), hit.begin() + size}];
        node.count += 1;
        node.weight += weight;
        node.longest = std::max(node.longest, length);
      }
    }
  }
  trie.explained = 1 - open;
  return trie;
}

Path Parent(const Path& path) { return {path.begin(), path.end() - 1}; }

float SlowConfidence(const SlowTrie& trie, const Path& path) {
  const Path parent = Parent(path);
  const SlowNode& above = trie.nodes.at(parent);
  const double count = static_cast<double>(above.count);
  const double explained =
      parent.empty() ? trie.explained
                     : count / (count + Doubt(above.longest + static_cast<double>(parent.size())));
  return static_cast<float>(explained * static_cast<double>(trie.nodes.at(path).weight) /
                            static_cast<double>(above.weight));
}

// Best first over all prefixes: survival, then depth, then weight, then the smaller id.
std::map<Path, float> SlowBest(const SlowTrie& trie, const DraftBudget& budget) {
  std::map<Path, double> survival = {{{}, 1.0}};
  std::map<Path, std::vector<Path>> children;
  for (const auto& [path, node] : trie.nodes) {  // parents come before their children
    if (path.empty()) continue;
    survival[path] = survival.at(Parent(path)) * SlowConfidence(trie, path);
    children[Parent(path)].push_back(path);
  }
  std::vector<Path> frontier;
  std::map<Path, float> best;
  const auto open = [&](const Path& parent) {
    std::vector<Path> list = children[parent];
    std::stable_sort(list.begin(), list.end(), [&](const Path& a, const Path& b) {
      return trie.nodes.at(a).weight > trie.nodes.at(b).weight;
    });
    list.resize(std::min(list.size(), static_cast<size_t>(budget.max_width)));
    frontier.insert(frontier.end(), list.begin(), list.end());
  };
  open({});
  while (!frontier.empty() && static_cast<int32_t>(best.size()) < budget.max_tokens) {
    const auto next =
        std::max_element(frontier.begin(), frontier.end(), [&](const Path& a, const Path& b) {
          return survival[a] != survival[b] ? survival[a] < survival[b] : a.size() > b.size();
        });
    const Path path = *next;
    frontier.erase(next);
    best[path] = SlowConfidence(trie, path);
    open(path);
  }
  return best;
}

TEST(Rest, EqualsAScanOfAllPositions) {
  RandomTokens random(11);
  int num_drafts = 0, num_empty = 0;
  for (const int32_t alphabet : {3, 8, 60}) {
    std::vector<std::vector<int32_t>> documents;
    for (int i = 0; i < 15; ++i) documents.push_back(random.Text(5 + i * 8, alphabet));
    documents.push_back(documents[7]);
    const TestStore file(documents, {.vocab_size = alphabet, .chunk_entries = 210});
    ASSERT_GE(file.store().chunks().size(), 4u);
    const auto rest = MakeRest(file.store(), {.most_hits = 10000});
    for (int round = 0; round < 200; ++round) {
      // Half of the texts end as some document of the store does in its middle.
      std::vector<int32_t> tokens = random.Text(6, alphabet);
      const std::vector<int32_t>& source = documents[random.Below(16)];
      const auto cut = static_cast<int64_t>(random.Below(static_cast<uint32_t>(source.size())));
      if (round % 2 == 0) tokens.insert(tokens.end(), source.begin(), source.begin() + cut);
      const DraftBudget budget = {
          .max_tokens = 1 + round % 12, .max_depth = 1 + round % 5, .max_width = 1 + round % 4};
      const auto expected = SlowBest(SlowRest(file.store(), tokens, budget.max_depth), budget);
      const DraftTree tree = rest->Draft({.tokens = tokens}, budget);
      ASSERT_EQ(Paths(tree, budget, alphabet), expected) << alphabet << ", round " << round;
      ++(tree.empty() ? num_empty : num_drafts);
    }
  }
  EXPECT_GT(num_drafts, 200);
  EXPECT_GT(num_empty, 50);
}

TEST(Rest, NothingIsDraftedWithoutAMatch) {
  const TestStore file({{1, 2, 3, 4}}, {.vocab_size = 10});
  const auto rest = MakeRest(file.store());
  const DraftBudget budget = {.max_tokens = 4, .max_depth = 4, .max_width = 2};
  const std::vector<int32_t> other = {7, 8}, single = {3}, one_known = {9, 3}, nothing = {};
  for (const auto& tokens : {other, single, one_known, nothing}) {
    EXPECT_TRUE(rest->Draft({.tokens = tokens}, budget).empty());
  }
  const std::vector<int32_t> known = {9, 2, 3};
  EXPECT_EQ(rest->Draft({.tokens = known}, budget).size(), 1);
}

TEST(Rest, AMatchAtTheEndOfADocumentDraftsNothing) {
  const TestStore file({{1, 2}, {3, 4}}, {.vocab_size = 10});
  const auto rest = MakeRest(file.store());
  const std::vector<int32_t> first = {1, 2}, last = {3, 4}, across = {2, 3};
  const DraftBudget budget = {.max_tokens = 4, .max_depth = 4, .max_width = 4};
  for (const auto& tokens : {first, last, across}) {
    EXPECT_TRUE(rest->Draft({.tokens = tokens}, budget).empty());
  }
}

TEST(Rest, TheMostFrequentContinuationComesFirst) {
  const TestStore file({{1, 2, 7}, {1, 2, 5}, {1, 2, 7, 8}, {1, 2, 6}, {1, 2, 7, 9}},
                       {.vocab_size = 10});
  const auto rest = MakeRest(file.store());
  const std::vector<int32_t> tokens = {1, 2};
  const DraftTree wide =
      rest->Draft({.tokens = tokens}, {.max_tokens = 5, .max_depth = 2, .max_width = 3});
  std::vector<int32_t> order;
  for (const DraftNode& node : wide.nodes) order.push_back(node.token);
  // Counts 3, 1, 1 (the smaller id first), then what follows 7.
  EXPECT_EQ(order, (std::vector<int32_t>{7, 5, 6, 8, 9}));
  const DraftTree chain =
      rest->Draft({.tokens = tokens}, {.max_tokens = 5, .max_depth = 5, .max_width = 1});
  ASSERT_EQ(chain.size(), 2);
  EXPECT_EQ(chain.nodes[0].token, 7);
  EXPECT_EQ(chain.nodes[1].token, 8);
  EXPECT_EQ(chain.nodes[1].parent, 0);
}

TEST(Rest, ConfidenceGrowsWithTheMatch) {
  std::vector<int32_t> text;
  for (int i = 0; i < 40; ++i) text.push_back(i);
  const TestStore file({text}, {.vocab_size = 50});
  const auto rest = MakeRest(file.store());
  const DraftBudget budget = {.max_tokens = 3, .max_depth = 3};
  float previous = 0;
  for (int32_t length = 2; length <= 16; ++length) {
    std::vector<int32_t> tokens = {49};
    tokens.insert(tokens.end(), text.begin(), text.begin() + length);
    const DraftTree tree = rest->Draft({.tokens = tokens}, budget);
    ASSERT_EQ(tree.size(), 3);
    EXPECT_GT(tree.nodes[0].confidence, previous);
    EXPECT_GT(tree.nodes[1].confidence, tree.nodes[0].confidence);
    previous = tree.nodes[0].confidence;
  }
}

TEST(Rest, ShorterMatchesFillWhatOneOccurrenceLeavesOpen) {
  // "2 3 4 5" occurs once; "4 5" occurs often and goes on otherwise.
  const TestStore file({{2, 3, 4, 5, 7}, {4, 5, 8}, {4, 5, 8}, {4, 5, 8}}, {.vocab_size = 10});
  const auto rest = MakeRest(file.store());
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5};
  const DraftTree tree =
      rest->Draft({.tokens = tokens}, {.max_tokens = 8, .max_depth = 2, .max_width = 4});
  ASSERT_EQ(tree.size(), 2);
  EXPECT_EQ(tree.nodes[0].token, 7);  // the longer match has the first word
  EXPECT_EQ(tree.nodes[1].token, 8);
  EXPECT_GT(tree.nodes[0].confidence, tree.nodes[1].confidence);
  EXPECT_LT(tree.nodes[0].confidence + tree.nodes[1].confidence, 1.0f);
}

TEST(Rest, BudgetsOfNothingDraftNothing) {
  const TestStore file({{1, 2, 3, 4, 5}}, {.vocab_size = 10});
  const auto rest = MakeRest(file.store());
  const std::vector<int32_t> tokens = {1, 2};
  for (const DraftBudget& budget : {DraftBudget{}, DraftBudget{.max_tokens = 4, .max_depth = 0},
                                    DraftBudget{.max_tokens = 0, .max_depth = 4},
                                    DraftBudget{.max_tokens = 4, .max_depth = 4, .max_width = 0}}) {
    EXPECT_TRUE(rest->Draft({.tokens = tokens}, budget).empty());
  }
}

TEST(Rest, ManyRepeatsStayInTheBudgetB45) {
  // 10^5 occurrences that go on in many ways, over several chunks: a sample of them is read.
  std::vector<int32_t> text;
  RandomTokens random(2);
  for (int i = 0; i < 100000; ++i) {
    text.insert(text.end(), {1, 2, 3 + static_cast<int32_t>(random.Below(50) * random.Below(4))});
  }
  const TestStore file({text}, {.vocab_size = 200, .chunk_entries = 100000});
  ASSERT_EQ(file.store().chunks().size(), 4u);
  const auto rest = MakeRest(file.store());
  const std::vector<int32_t> tokens = {1, 2};
  for (int32_t choices = 1; choices <= 64; ++choices) {
    const DraftBudget budget = {.max_tokens = choices, .max_depth = 6, .max_width = 64};
    const DraftTree tree = rest->Draft({.tokens = tokens}, budget);
    EXPECT_EQ(Paths(tree, budget, 200).size(), static_cast<size_t>(choices));
    // 26 % of all go on with 3 and the rest are spread: the sample must see that.
    EXPECT_EQ(tree.nodes[0].token, 3);
    EXPECT_NEAR(tree.nodes[0].confidence, 0.26, 0.05);
    EXPECT_EQ(Paths(rest->Draft({.tokens = tokens}, budget), budget, 200),
              Paths(tree, budget, 200));
  }
}

TEST(Rest, DamagedStoresGiveAnErrorOrSafeDrafts) {
  RandomTokens random(8);
  std::vector<std::vector<int32_t>> documents;
  for (int i = 0; i < 8; ++i) documents.push_back(random.Text(40, 6));
  const TestStore file(documents, {.vocab_size = 6, .chunk_entries = 100});
  int num_loaded = 0, num_refused = 0, num_drafts = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint8_t> bytes = file.bytes();
    if (round % 2 == 0) {
      bytes.resize(random.Below(static_cast<uint32_t>(bytes.size())));
      bytes.shrink_to_fit();  // so that a sanitizer sees the end
    } else {
      for (uint32_t flip = 0; flip < 1 + random.Below(40); ++flip) {
        // Three of four rounds leave the header and the table alone.
        const uint32_t first = round % 8 == 1 ? 0 : 64;
        const uint32_t last = static_cast<uint32_t>(bytes.size()) - (round % 8 == 1 ? 0 : 160);
        bytes[first + random.Below(last - first)] ^= static_cast<uint8_t>(1 + random.Below(255));
      }
    }
    const auto store = Datastore::Parse(bytes, "damaged");
    ++(store.ok() ? num_loaded : num_refused);
    if (!store.ok()) {
      ASSERT_FALSE(store.status().message().empty());
      continue;
    }
    const auto rest = MakeRest(**store);
    for (int query = 0; query < 20; ++query) {
      const std::vector<int32_t> tokens = random.Text(3, 6);
      const DraftBudget budget = {.max_tokens = 16, .max_depth = 8, .max_width = 4};
      num_drafts += Paths(rest->Draft({.tokens = tokens}, budget), budget, 6).empty() ? 0 : 1;
    }
  }
  EXPECT_GT(num_loaded, 500);
  EXPECT_GT(num_refused, 1000);
  EXPECT_GT(num_drafts, 1000);
}

}  // namespace
}  // namespace tahmin
