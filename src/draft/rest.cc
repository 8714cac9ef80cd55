#include "draft/rest.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>
#include <vector>

#include "base/check.h"

namespace tahmin {
namespace {

// Deeper than any draft pays; bounds what is read of one occurrence.
constexpr int32_t kDeepestDraft = 64;

// What may stay unexplained without a look at shorter matches.
constexpr double kLittleOpen = 0.15;

// What followed the sequence's last match_length tokens in one place of the store.
struct Continuation {
  std::span<const uint32_t> tokens;
  int32_t match_length;
  uint32_t weight;  // in units of 2^-30; whole numbers, so that sums do not depend on order
};

// By id; a text that ends comes after all that go on, as in the store's own order, so that what one
// chunk gives is sorted as it comes.
bool ComesBefore(const Continuation& a, const Continuation& b) {
  const auto [in_a, in_b] =
      std::mismatch(a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end());
  if (in_a == a.tokens.end()) return false;
  return in_b == b.tokens.end() || *in_a < *in_b;
}

// How much `count` occurrences of the last match_length tokens explain of what comes next. One
// occurrence of 2 tokens is right one time in 7, of 16 tokens three times in 4; many are better.
double Explained(uint64_t count, int32_t match_length) {
  const double doubt = 18.0 / (match_length * std::sqrt(match_length));
  return static_cast<double>(count) / (static_cast<double>(count) + doubt);
}

// Once sorted, all continuations with the same first tokens are neighbours, so a node of the trie
// is a range of them: [begin, end) agree on their first `depth` tokens, the last of which is
// `token`.
struct TrieNode {
  size_t begin = 0, end = 0;
  int32_t depth = 0;
  int32_t token = -1;
  int32_t parent = kRoot;     // in the draft
  uint64_t weight = 0;        // of the range
  int32_t longest_match = 0;  // in the range
  float confidence = 1.0f;    // given the parent
  double survival = 1.0;      // product of the confidences on the path
  int64_t order = 0;          // of discovery: parents first, then by weight, then by id

  // A heap gives the largest: the better survival, the shallower, the one seen first.
  bool operator<(const TrieNode& other) const {
    if (survival != other.survival) return survival < other.survival;
    if (depth != other.depth) return depth > other.depth;
    return order > other.order;
  }
};

class Rest : public Drafter {
 public:
  Rest(const Datastore& store, RestOptions options) : store_(store), options_(options) {
    TAHMIN_CHECK(options.shortest_match >= 1 && options.longest_match >= options.shortest_match);
    TAHMIN_CHECK(options.most_hits >= 1);
  }

  std::string_view Name() const override { return "rest"; }
  void Begin(const SequenceView&) override {}
  DraftTree Draft(const SequenceView& sequence, const DraftBudget& budget) override;
  void Observe(const SequenceView&, const DraftTree&, const VerifiedTree&, const AcceptedPath&,
               std::span<const int32_t>) override {}

 private:
  // The ranges of the ending of that length, one a chunk, in found_; the number of occurrences.
  uint64_t Find(std::span<const int32_t> ending);
  int32_t FindLongestMatch(std::span<const int32_t> tokens);
  double Gather(std::span<const int32_t> tokens, int32_t match_length, int32_t depth);
  void Read(int32_t match_length, uint64_t num_found, int32_t depth, double mass);
  DraftTree GrowTree(double explained, const DraftBudget& budget) const;
  void AddChildren(const TrieNode& node, double explained, std::vector<TrieNode>* out) const;

  const Datastore& store_;
  const RestOptions options_;
  // Scratch, kept from step to step.
  std::vector<SuffixRange> found_;  // [number of chunks]
  struct Hit {
    const DatastoreChunk* chunk;
    uint64_t rank;
  };
  std::vector<Hit> hits_;
  std::vector<Continuation> continuations_;
};

uint64_t Rest::Find(std::span<const int32_t> ending) {
  uint64_t num_found = 0;
  found_.clear();
  for (const DatastoreChunk& chunk : store_.chunks()) {
    found_.push_back(chunk.Find(ending));
    num_found += found_.back().size();
  }
  return num_found;
}

// An ending that occurs has shorter ones that occur too, so the longest is found by bisection. 0:
// there is none.
int32_t Rest::FindLongestMatch(std::span<const int32_t> tokens) {
  int32_t known = options_.shortest_match - 1;  // occurs, or is too short to count
  int32_t limit = static_cast<int32_t>(
      std::min<size_t>(tokens.size(), static_cast<size_t>(options_.longest_match)));
  while (known < limit) {
    const int32_t length = known + (limit - known + 1) / 2;
    if (Find(tokens.last(static_cast<size_t>(length))) > 0) {
      known = length;
    } else {
      limit = length - 1;
    }
  }
  return known < options_.shortest_match ? 0 : known;
}

// Reads what followed the longest match, and while that leaves much open, what followed half of it
// too: each length's further places explain their part of what the longer ones left open. Gives the
// sum of the parts.
double Rest::Gather(std::span<const int32_t> tokens, int32_t match_length, int32_t depth) {
  continuations_.clear();
  double open = 1.0;
  uint64_t num_known = 0;  // places of the longer match, which are among those of the shorter one
  while (true) {
    const uint64_t num_found = Find(tokens.last(static_cast<size_t>(match_length)));
    if (num_found > num_known) {
      const double part = Explained(num_found - num_known, match_length);
      Read(match_length, num_found, depth, open * part);
      open *= 1 - part;
      num_known = num_found;
    }
    if (open < kLittleOpen || match_length == options_.shortest_match) break;
    match_length = std::max(options_.shortest_match, match_length / 2);
  }
  if (!std::is_sorted(continuations_.begin(), continuations_.end(), ComesBefore)) {
    std::sort(continuations_.begin(), continuations_.end(), ComesBefore);
  }
  return 1 - open;
}

// Of the num_found places in found_, up to most_hits, spread evenly over all of them; they share
// `mass`.
void Rest::Read(int32_t match_length, uint64_t num_found, int32_t depth, double mass) {
  const uint64_t num_hits =
      std::min<uint64_t>(num_found, static_cast<uint64_t>(options_.most_hits));
  const uint64_t skip = static_cast<uint64_t>(match_length);
  hits_.clear();
  uint64_t before = 0;  // hits in earlier chunks
  size_t chunk = 0;
  for (uint64_t i = 0; i < num_hits; ++i) {
    // The middle of the i-th of num_hits equal parts. No overflow: a store holds below 2^46 tokens.
    const uint64_t hit = (2 * i + 1) * num_found / (2 * num_hits);
    while (hit - before >= found_[chunk].size()) before += found_[chunk++].size();
    hits_.push_back({&store_.chunks()[chunk], found_[chunk].begin + hit - before});
  }
  // Two passes, so that the processor waits for many places at a time rather than for each.
  for (const Hit& hit : hits_) hit.chunk->Prefetch(hit.rank, skip);
  const double weight = num_hits == 0 ? 0 : mass * (1 << 30) / static_cast<double>(num_hits);
  for (const Hit& hit : hits_) {
    continuations_.push_back(
        {.tokens = hit.chunk->Continuation(hit.rank, skip, static_cast<uint64_t>(depth)),
         .match_length = match_length,
         .weight = std::max(1u, static_cast<uint32_t>(weight))});
  }
}

// Appends one node for each token that follows in the node's continuations, ids ascending. Those
// that end here come last in the range and speak for none of them.
void Rest::AddChildren(const TrieNode& node, double explained, std::vector<TrieNode>* out) const {
  const size_t depth = static_cast<size_t>(node.depth);
  const auto goes_on = [&](size_t i) {
    return i < node.end && continuations_[i].tokens.size() > depth;
  };
  size_t begin = node.begin;
  while (goes_on(begin)) {
    TrieNode child{.begin = begin, .end = begin, .depth = node.depth + 1};
    const uint32_t token = continuations_[begin].tokens[depth];
    for (; goes_on(child.end) && continuations_[child.end].tokens[depth] == token; ++child.end) {
      child.weight += continuations_[child.end].weight;
      child.longest_match = std::max(child.longest_match, continuations_[child.end].match_length);
    }
    child.token = static_cast<int32_t>(token);
    child.confidence = static_cast<float>(explained * static_cast<double>(child.weight) /
                                          static_cast<double>(node.weight));
    child.survival = node.survival * child.confidence;
    begin = child.end;
    out->push_back(child);
  }
}

DraftTree Rest::GrowTree(double explained, const DraftBudget& budget) const {
  DraftTree tree;
  std::priority_queue<TrieNode> frontier;
  std::vector<TrieNode> children;
  int64_t num_seen = 0;
  const auto expand = [&](const TrieNode& node, double node_explained, int32_t index) {
    children.clear();
    if (node.depth < budget.max_depth) AddChildren(node, node_explained, &children);
    std::stable_sort(children.begin(), children.end(),
                     [](const TrieNode& a, const TrieNode& b) { return a.weight > b.weight; });
    const size_t width = std::min(children.size(), static_cast<size_t>(budget.max_width));
    for (size_t i = 0; i < width; ++i) {
      children[i].parent = index;
      children[i].order = num_seen++;
      frontier.push(children[i]);
    }
  };
  TrieNode root{.end = continuations_.size()};
  for (const Continuation& continuation : continuations_) root.weight += continuation.weight;
  expand(root, explained, kRoot);
  while (!frontier.empty() && tree.size() < budget.max_tokens) {
    const TrieNode node = frontier.top();
    frontier.pop();
    tree.nodes.push_back(
        {.token = node.token, .parent = node.parent, .confidence = node.confidence});
    // The drafted tokens extend the match.
    expand(node, Explained(node.end - node.begin, node.longest_match + node.depth),
           tree.size() - 1);
  }
  return tree;
}

DraftTree Rest::Draft(const SequenceView& sequence, const DraftBudget& budget) {
  const int32_t depth = std::min({budget.max_depth, budget.max_tokens, kDeepestDraft});
  if (depth < 1 || budget.max_width < 1) return {};
  const int32_t match_length = FindLongestMatch(sequence.tokens);
  if (match_length == 0) return {};
  const double explained = Gather(sequence.tokens, match_length, depth);
  return GrowTree(explained, budget);
}

}  // namespace

std::unique_ptr<Drafter> MakeRest(const Datastore& store, RestOptions options) {
  return std::make_unique<Rest>(store, options);
}

}  // namespace tahmin
