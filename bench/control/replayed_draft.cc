#include "bench/control/replayed_draft.h"

#include <algorithm>

#include "base/check.h"

namespace tahmin::bench {
namespace {

// Walks down the chain that the model would write behind an output token.
class RecordedChain {
 public:
  RecordedChain(const TextRecord& text, size_t position) : text_(text), position_(position) {}

  // The node that comes next; null: no more is recorded.
  const DraftGuess* Next() {
    second_ = nullptr;
    if (left_text_ != nullptr) {
      const bool is_end = wrong_depth_ == left_text_->wrong_path.size();
      return is_end ? nullptr : &left_text_->wrong_path[wrong_depth_++];
    }
    if (position_ >= text_.drafts.size()) return nullptr;
    const RecordedDraft& draft = text_.drafts[position_];
    position_ += 1;
    if (draft.first.token != text_.output[position_]) left_text_ = &draft;
    second_ = &draft.second;
    return &draft.first;
  }

  // The choice that the last node was preferred to; null: not recorded.
  const DraftGuess* Second() const { return second_; }

 private:
  const TextRecord& text_;
  size_t position_;                           // output token that the chain stands on
  const RecordedDraft* left_text_ = nullptr;  // where the chain went wrong
  size_t wrong_depth_ = 0;
  const DraftGuess* second_ = nullptr;
};

}  // namespace

ReplayedDraft::ReplayedDraft(const TextRecord& text, int32_t vocab_size, uint64_t seed)
    : text_(text), vocab_size_(vocab_size), random_(seed) {
  TAHMIN_CHECK(text.drafts.size() + 1 == text.output.size());
}

// As DraftCache::CatchUp. Returns the number of tokens that are read.
int64_t ReplayedDraft::CatchUp(std::span<const int32_t> tokens, int32_t max_catch_up) {
  const auto [in_fed, in_tokens] =
      std::mismatch(fed_tokens_.begin(), fed_tokens_.end(), tokens.begin(), tokens.end());
  size_t common = std::min<size_t>(in_tokens - tokens.begin(), tokens.size() - 1);
  if (common < window_begin_ || max_catch_up == 0) {
    if (window_begin_ > 0) common = 0;
    window_begin_ = 0;
  }
  if (max_catch_up > 0 && tokens.size() - common > static_cast<size_t>(max_catch_up)) {
    common = window_begin_ = tokens.size() - static_cast<size_t>(max_catch_up);
  }
  fed_tokens_.assign(tokens.begin(), tokens.end());
  return static_cast<int64_t>(tokens.size() - common);
}

int32_t ReplayedDraft::Push(const DraftGuess& guess, int32_t parent, DraftTree* tree) {
  tree->nodes.push_back({.token = guess.token, .parent = parent, .confidence = guess.confidence});
  return tree->size() - 1;
}

DraftTree ReplayedDraft::Replay(size_t position, const DraftBudget& budget) {
  DraftTree tree;
  RecordedChain chain(text_, position);
  int32_t end = kRoot;
  float survival = 1;
  const int32_t length = std::min(budget.max_depth, budget.max_tokens);
  int32_t spare_room = budget.max_tokens - length;
  while (work_.num_passes < length) {
    const DraftGuess* node = chain.Next();
    if (node == nullptr) break;
    if (end != kRoot) fed_tokens_.push_back(tree.nodes[end].token);
    work_.num_passes += 1;
    const int32_t parent = end;
    end = Push(*node, parent, &tree);
    if (budget.spare_choices > 0 && spare_room > 0 && chain.Second() != nullptr) {
      Push(*chain.Second(), parent, &tree);
      spare_room -= 1;
    }
    survival *= budget.scale.Of(node->confidence);
    if (survival < budget.min_survival) break;
  }
  return tree;
}

DraftTree ReplayedDraft::GuessBlindly(size_t position) {
  const bool is_right = std::uniform_real_distribution<double>()(random_) < 0.5;
  const int32_t next = text_.output[position + 1];
  DraftTree tree;
  Push({.token = is_right ? next : (next + 1) % vocab_size_, .confidence = 0.5f}, kRoot, &tree);
  work_.num_passes = 1;
  return tree;
}

DraftTree ReplayedDraft::Draft(const SequenceView& sequence, const DraftBudget& budget) {
  work_ = {};
  const size_t position = sequence.tokens.size() - text_.prompt.size() - 1;
  const bool may_draft = budget.max_tokens > 0 && budget.max_depth > 0;
  if (!may_draft || position >= text_.drafts.size()) return {};
  work_.read_tokens = CatchUp(sequence.tokens, budget.max_catch_up);
  return window_begin_ > 0 ? GuessBlindly(position) : Replay(position, budget);
}

}  // namespace tahmin::bench
