// The draft model of a recorded text: a drafter that guesses what the model guessed when the text
// was recorded, and counts the passes that the model would have run for it. One object per text.
//
// It reads as the model does (draft/draft_cache.h): all tokens that it has not fed yet, the root
// token always; with a bound on that (DraftBudget::max_catch_up) and more to read, only the last
// ones. What a model that has read no more than such a window would guess is not recorded: it gives
// one token then, right in half of the cases, with a confidence of one half.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "bench/control/text_record.h"
#include "draft/drafter.h"

namespace tahmin::bench {

class ReplayedDraft final : public Drafter {
 public:
  struct Work {
    int64_t read_tokens = 0;
    int32_t num_passes = 0;
  };

  // The text has drafts, and outlives it. seed: of the guesses that are not recorded.
  ReplayedDraft(const TextRecord& text, int32_t vocab_size, uint64_t seed);

  std::string_view Name() const override { return "draft"; }
  void Begin(const SequenceView&) override {}
  // A chain, and with DraftBudget::spare_choices the second choice beside each node, behind it, as
  // far as the chain is right: elsewhere it is not recorded.
  DraftTree Draft(const SequenceView& sequence, const DraftBudget& budget) override;
  void Observe(const SequenceView&, const DraftTree&, const VerifiedTree&, const AcceptedPath&,
               std::span<const int32_t>) override {}

  const Work& last_work() const { return work_; }  // of the last Draft

 private:
  int64_t CatchUp(std::span<const int32_t> tokens, int32_t max_catch_up);
  DraftTree Replay(size_t position, const DraftBudget& budget);
  DraftTree GuessBlindly(size_t position);
  int32_t Push(const DraftGuess& guess, int32_t parent, DraftTree* tree);

  const TextRecord& text_;
  const int32_t vocab_size_;
  std::mt19937_64 random_;
  std::vector<int32_t> fed_tokens_;
  size_t window_begin_ = 0;  // earlier tokens it has not read
  Work work_;
};

}  // namespace tahmin::bench
