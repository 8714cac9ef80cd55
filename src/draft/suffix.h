// `suffix`: drafts from what the sequence, and earlier outputs, said before. A suffix automaton
// over prompt + output (suffix_automaton.h) finds every earlier occurrence of the sequence's end,
// the longest first, and how often which token followed; an optional store (suffix_store.h) does
// the same for earlier outputs. The draft is the tree (or chain) of the likeliest continuations,
// best first by the probability of the whole path (continuation_estimate.h).
//
// Oliaro et al., "SuffixDecoding" (2411.04975), and Hu et al., "SAM Decoding" (2411.10666). We
// differ: one estimate out of all match lengths and texts in place of the best single match; an
// automaton in place of depth-limited suffix trees; no least length of a match, since the estimate
// of a short one is small already.
//
// Lives as long as its sequence. Memory: about 100 bytes a token of the sequence.
#pragma once

#include <cstdint>
#include <memory>

#include "draft/drafter.h"
#include "draft/suffix_store.h"

namespace tahmin {

// The probability of a path below which it is not worth a row of verification on any machine:
// a row costs some hundredths of a pass at least.
constexpr double kHopelessSurvival = 0.03;

// store: null, or outlives the drafter. It is only read here; who ends a request adds its output
// (SuffixStore::Add), before or after this drafter's life or between two of its calls.
// Never proposes ids outside [0, valid_vocab_size).
std::unique_ptr<Drafter> MakeSuffix(const SuffixStore* store, int32_t valid_vocab_size);

}  // namespace tahmin
