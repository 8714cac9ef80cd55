// What is likely to follow the end of a sequence, from how often it followed before: the
// estimate behind `suffix` (suffix.h). Plain values, no state.
//
// Each text gives its longest match and, by suffix links, every shorter one that occurred more
// often. The shortest says little, the longest is rarest; as in hierarchical language models
// (MacKay and Peto, 1995) the estimate of a longer match takes that of the next shorter one for its
// prior, worth PriorStrength(length) observations:
//   P_length(t) = (count(t) + strength * P_shorter(t)) / (count + strength),  P_0(t) = 0.
// What P_0 leaves is the probability of a token that never followed. So one occurrence after a
// match of one token is worth little, one after ten tokens much, and several that agree more. What
// matters less than kNegligible is left out, and what is behind the kMostContexts longest.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "draft/suffix_automaton.h"

namespace tahmin {

constexpr int32_t kMostTexts = 4;
constexpr int32_t kMostContexts = 12;  // matches of all texts that are looked at
constexpr double kNegligible = 1e-3;   // weight of all shorter matches together

struct TextMatch {
  const SuffixAutomaton* text = nullptr;
  SuffixMatch match;
};

struct Continuation {
  int32_t token = 0;
  double probability = 0;
};

struct ContinuationList {
  static constexpr int32_t kMost = 16;
  std::array<Continuation, kMost> items;
  int32_t size = 0;

  std::span<const Continuation> view() const { return std::span(items).first(size); }
};

// 3 / match_length observations. Of a / match_length^b with a from 1 to 4 and b from 0.5 to 1.6
// this was near the least log loss of the confidences both on the greedy output of a 0.5B model
// over seven kinds of prompts (0.36 a tested node) and on documents and source files (0.42), which
// repeat themselves less faithfully; tokens a step hardly depend on it. One observation more for
// the latest occurrence, and less trust in a store than in the text itself, gained nothing.
double PriorStrength(int32_t match_length);

// The tokens that followed the matches most often, the likeliest first, the lower id among equals;
// negative ids (ends of outputs in a store) are left out but counted. Matches of equal length are
// taken in the order of the texts: the first has the last word.
ContinuationList EstimateContinuations(std::span<const TextMatch> matches);

}  // namespace tahmin
