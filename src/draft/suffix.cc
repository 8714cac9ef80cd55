#include "draft/suffix.h"

#include <algorithm>
#include <array>
#include <vector>

#include "draft/continuation_estimate.h"

namespace tahmin {
namespace {

// The own text, then the store's if there is one, the newest first.
using Matches = std::array<TextMatch, 1 + SuffixStore::kNumTexts>;

// A node that may join the tree.
struct Candidate {
  double survival = 0;  // probability of the whole path
  double probability = 0;
  int32_t match_length = 0;  // the longest, in front of it
  int32_t token = 0;
  int32_t parent = kRoot;
  int32_t depth = 1;
  float scaled_survival = 0;
};

// The worse one, for a heap. Candidates of one parent differ in their token.
bool IsWorse(const Candidate& a, const Candidate& b) {
  if (a.survival != b.survival) return a.survival < b.survival;
  if (a.match_length != b.match_length) return a.match_length < b.match_length;
  if (a.token != b.token) return a.token > b.token;
  return a.parent > b.parent;
}

class Suffix : public Drafter {
 public:
  Suffix(const SuffixStore* store, int32_t valid_vocab_size)
      : store_(store),
        num_texts_(store == nullptr ? 1 : 1 + SuffixStore::kNumTexts),
        valid_vocab_size_(valid_vocab_size) {}

  std::string_view Name() const override { return "suffix"; }
  void Begin(const SequenceView& sequence) override;
  DraftTree Draft(const SequenceView& sequence, const DraftBudget& budget) override;
  void Observe(const SequenceView& sequence, const DraftTree&, const VerifiedTree&,
               const AcceptedPath&, std::span<const int32_t>) override {
    Index(sequence.tokens);
  }

 private:
  void Index(std::span<const int32_t> tokens);
  void MatchStore();
  Matches MatchesOfEnd() const;
  void Expand(const Matches& matches, const Candidate& parent, int32_t parent_index,
              const DraftBudget& budget);

  std::span<const TextMatch> InUse(const Matches& matches) const {
    return std::span(matches).first(static_cast<size_t>(num_texts_));
  }

  const SuffixStore* const store_;
  const int32_t num_texts_;
  const int32_t valid_vocab_size_;
  std::vector<int32_t> indexed_tokens_;
  SuffixAutomaton text_;  // of indexed_tokens_
  // The end of indexed_tokens_ in the store's texts, as of store_version_.
  std::array<SuffixMatch, SuffixStore::kNumTexts> store_matches_;
  int64_t store_version_ = -1;
  // Of one Draft; members so that they need not be allocated again.
  std::vector<Candidate> heap_;
  std::vector<Matches> node_matches_;
};

void Suffix::Begin(const SequenceView& sequence) {
  const std::span<const int32_t> tokens = sequence.tokens;
  const bool goes_on = indexed_tokens_.size() <= tokens.size() &&
                       std::equal(indexed_tokens_.begin(), indexed_tokens_.end(), tokens.begin());
  if (!goes_on) {
    indexed_tokens_.clear();
    text_.Clear();
    store_version_ = -1;
  }
  Index(tokens);
}

void Suffix::Index(std::span<const int32_t> tokens) {
  MatchStore();
  while (indexed_tokens_.size() < tokens.size()) {
    const int32_t token = tokens[indexed_tokens_.size()];
    indexed_tokens_.push_back(token);
    text_.Append(token);
    for (int32_t i = 0; i + 1 < num_texts_; ++i) {
      store_matches_[i] = store_->text(i).Extend(store_matches_[i], token);
    }
  }
}

// Outputs were added to the store, or dropped: looks for the end of the sequence again.
void Suffix::MatchStore() {
  if (store_ == nullptr || store_version_ == store_->version()) return;
  store_version_ = store_->version();
  store_matches_ = {};
  const size_t length = std::min<size_t>(indexed_tokens_.size(), SuffixAutomaton::kLongestMatch);
  for (int32_t token : std::span<const int32_t>(indexed_tokens_).last(length)) {
    for (int32_t i = 0; i < SuffixStore::kNumTexts; ++i) {
      store_matches_[i] = store_->text(i).Extend(store_matches_[i], token);
    }
  }
}

Matches Suffix::MatchesOfEnd() const {
  Matches matches;
  matches[0] = {&text_, text_.OwnEnd()};
  for (int32_t i = 1; i < num_texts_; ++i) {
    matches[i] = {&store_->text(i - 1), store_matches_[i - 1]};
  }
  return matches;
}

// The likeliest continuations of a node (or of the root) become candidates.
void Suffix::Expand(const Matches& matches, const Candidate& parent, int32_t parent_index,
                    const DraftBudget& budget) {
  int32_t length = 0;
  for (const TextMatch& text_match : InUse(matches)) {
    length = std::max(length, text_match.match.length);
  }
  const ContinuationList continuations = EstimateContinuations(InUse(matches));
  int32_t width = 0;
  for (const auto& [token, probability] : continuations.view()) {
    if (width == budget.max_width) break;
    if (token >= valid_vocab_size_) continue;
    const double survival = parent.survival * probability;
    const float scaled = parent.scaled_survival * budget.scale.Of(static_cast<float>(probability));
    if (survival < kHopelessSurvival || scaled < budget.min_survival) continue;
    heap_.push_back({survival, probability, length, token, parent_index, parent.depth + 1, scaled});
    std::push_heap(heap_.begin(), heap_.end(), IsWorse);
    ++width;
  }
}

DraftTree Suffix::Draft(const SequenceView& sequence, const DraftBudget& budget) {
  DraftTree tree;
  if (budget.max_tokens <= 0 || budget.max_depth <= 0) return tree;
  Index(sequence.tokens);
  heap_.clear();
  node_matches_.clear();
  const Matches end = MatchesOfEnd();
  Expand(end, {.survival = 1, .depth = 0, .scaled_survival = 1}, kRoot, budget);
  while (!heap_.empty() && tree.size() < budget.max_tokens) {
    std::pop_heap(heap_.begin(), heap_.end(), IsWorse);
    const Candidate best = heap_.back();
    heap_.pop_back();
    const int32_t index = tree.size();
    tree.nodes.push_back({.token = best.token,
                          .parent = best.parent,
                          .confidence = static_cast<float>(best.probability)});
    Matches matches = best.parent == kRoot ? end : node_matches_[best.parent];
    for (int32_t i = 0; i < num_texts_; ++i) {
      matches[i].match = matches[i].text->Extend(matches[i].match, best.token);
    }
    node_matches_.push_back(matches);
    if (best.depth < budget.max_depth) Expand(matches, best, index, budget);
  }
  return tree;
}

}  // namespace

std::unique_ptr<Drafter> MakeSuffix(const SuffixStore* store, int32_t valid_vocab_size) {
  return std::make_unique<Suffix>(store, valid_vocab_size);
}

}  // namespace tahmin
