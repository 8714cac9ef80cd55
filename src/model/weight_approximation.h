// How the weights of a draft model may differ from those of its file. A target's never do: the
// default is exact. See docs/cheap_drafts.md for what each costs and saves.
#pragma once

#include <cstdint>

#include "model/config.h"
#include "tahmin/options.h"

namespace tahmin {

struct WeightApproximation {
  bool to_four_bits = false;  // quantise matrices that are wider than 4 bits again
  DraftHead head = DraftHead::kExact;
  int32_t head_tokens = 0;  // kFrequent: rows kept; kCoarse: candidates; 0: a good number

  bool IsExact() const { return !to_four_bits && head == DraftHead::kExact; }
};

// The output head in numbers, the defaults filled in and clamped to the vocabulary. kAuto is
// resolved: kCoarse for a vocabulary of at least 16,384 tokens, whose head is then a large part of
// a draft step; else kExact.
struct HeadShape {
  DraftHead kind = DraftHead::kExact;
  int32_t num_tokens = 0;  // rows kept, or candidates

  static HeadShape Of(const WeightApproximation& approximation, const ModelConfig& config);
};

}  // namespace tahmin
