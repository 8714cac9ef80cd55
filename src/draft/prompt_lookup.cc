#include "draft/prompt_lookup.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace tahmin {
namespace {

class PromptLookup : public Drafter {
 public:
  PromptLookup(int32_t min_ngram, int32_t max_ngram)
      : min_ngram_(min_ngram), max_ngram_(max_ngram) {}

  std::string_view Name() const override { return "lookup"; }
  void Begin(const SequenceView& sequence) override;
  DraftTree Draft(const SequenceView& sequence, const DraftBudget& budget) override;
  void Observe(const SequenceView& sequence, const DraftTree&, const VerifiedTree&,
               const AcceptedPath&, std::span<const int32_t>) override {
    Index(sequence.tokens);
  }

 private:
  void Index(std::span<const int32_t> tokens);
  int32_t FindContinuation(std::span<const int32_t> tokens) const;

  const int32_t min_ngram_, max_ngram_;
  std::vector<int32_t> indexed_tokens_;  // every n-gram that ends inside them is in the index
  // Hash of an n-gram -> index just behind its latest occurrence. One entry for each length and end
  // position at most, so memory is bounded by (max - min + 1) x context.
  absl::flat_hash_map<uint64_t, int32_t> latest_end_;
};

uint64_t HashTokens(std::span<const int32_t> tokens) {
  uint64_t hash = 0x9e3779b97f4a7c15ull ^ tokens.size();
  for (int32_t token : tokens) {
    hash = (hash ^ static_cast<uint32_t>(token)) * 0xff51afd7ed558ccdull;
    hash ^= hash >> 32;
  }
  return hash;
}

void PromptLookup::Begin(const SequenceView& sequence) {
  const std::span<const int32_t> tokens = sequence.tokens;
  const bool goes_on = indexed_tokens_.size() <= tokens.size() &&
                       std::equal(indexed_tokens_.begin(), indexed_tokens_.end(), tokens.begin());
  if (!goes_on) {
    indexed_tokens_.clear();
    latest_end_.clear();
  }
  Index(tokens);
}

// Takes in every n-gram that has a token behind it: the one that ends the sequence has none yet, so
// it never matches itself.
void PromptLookup::Index(std::span<const int32_t> tokens) {
  while (indexed_tokens_.size() + 1 < tokens.size()) {
    indexed_tokens_.push_back(tokens[indexed_tokens_.size()]);
    const int32_t end = static_cast<int32_t>(indexed_tokens_.size());
    for (int32_t n = min_ngram_; n <= std::min(max_ngram_, end); ++n) {
      latest_end_[HashTokens(tokens.subspan(end - n, n))] = end;
    }
  }
}

// Where the text behind the latest earlier occurrence of the longest known ending begins; -1:
// nowhere.
int32_t PromptLookup::FindContinuation(std::span<const int32_t> tokens) const {
  const int32_t num_tokens = static_cast<int32_t>(tokens.size());
  for (int32_t n = std::min(max_ngram_, num_tokens - 1); n >= min_ngram_; --n) {
    const std::span<const int32_t> ending = tokens.last(n);
    const auto found = latest_end_.find(HashTokens(ending));
    if (found == latest_end_.end()) continue;
    // Hashes may collide: compare the tokens themselves.
    const std::span<const int32_t> earlier = tokens.subspan(found->second - n, n);
    if (std::equal(ending.begin(), ending.end(), earlier.begin())) return found->second;
  }
  return -1;
}

DraftTree PromptLookup::Draft(const SequenceView& sequence, const DraftBudget& budget) {
  DraftTree tree;
  const std::span<const int32_t> tokens = sequence.tokens;
  const int32_t source = FindContinuation(tokens);
  if (source < 0) return tree;
  const int32_t num_tokens = static_cast<int32_t>(tokens.size());
  const int32_t length = std::min(budget.max_tokens, budget.max_depth);
  for (int32_t i = 0; i < length; ++i) {
    // A repetition with a period shorter than the draft goes on into the draft itself.
    const int32_t from = source + i;
    const int32_t token = from < num_tokens ? tokens[from] : tree.nodes[from - num_tokens].token;
    tree.nodes.push_back({.token = token, .parent = i - 1});
  }
  return tree;
}

}  // namespace

std::unique_ptr<Drafter> MakePromptLookup(int32_t min_ngram, int32_t max_ngram) {
  return std::make_unique<PromptLookup>(min_ngram, max_ngram);
}

}  // namespace tahmin
