// Philox4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3" (SC 2011). A draw is a pure function of (key, counter): it never depends on how many
// draws came before, so any decoding step can be replayed alone.
#pragma once

#include <array>
#include <cstdint>

namespace tahmin {

// What a draw is for. Draws for different purposes are independent of one another.
enum class DrawPurpose : uint32_t {
  kToken = 0,       // keyed token draw, shared by target and draft: counter (position, token id)
  kDraft = 1,       // rejection rule: the draft's own sample
  kAcceptance = 2,  // rejection rule: the acceptance test
  kResidual = 3,    // rejection rule: residual or bonus sample
};

struct PhiloxCounter {
  uint32_t word[4];
};

std::array<uint32_t, 4> Philox4x32(uint64_t key, PhiloxCounter counter);

// The counter layout used everywhere: word 0 = purpose, word 1 = lane (token id, or node index),
// words 2 and 3 = position (low, high).
PhiloxCounter MakeCounter(DrawPurpose purpose, uint32_t lane, uint64_t position);

// Uniform in the open interval (0, 1) with 32 bits: (bits + 0.5) / 2^32, exact in double.
double UniformOpen(uint32_t bits);

}  // namespace tahmin
