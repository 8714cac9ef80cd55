// The keyed draw: token = argmax over the candidates x of (logit(x) + g(x)), g(x) =
// -log(-log(u(x))), u(x) = UniformOpen(word 0 of Philox(seed; kToken, x, position)). Gumbel-max
// trick, so the token is distributed as the softmax of the logits; the draw depends on the
// distribution and the key only, never on who asks, so plain and speculative decoding emit the same
// token, and a draft that draws with the same key from a similar distribution mostly draws the same
// token. One candidate (temperature 0) is returned without noise. Ties go to the lowest id.
#pragma once

#include <cstdint>
#include <span>

#include "base/philox.h"
#include "sampling/candidates.h"
#include "step/token_distribution.h"

namespace tahmin {

// seed: of the request. position: index in the sequence of the token that is drawn. At least one
// candidate.
int32_t KeyedDraw(std::span<const Candidate> candidates, uint64_t seed, int64_t position);

// Inverse-CDF draw from a distribution in its stored order; uniform in (0, 1). For the rejection
// rule.
int32_t DrawFrom(const TokenDistribution& distribution, double uniform);

// The uniform of one draw of the rejection rule, in (0, 1) with 52 bits. Counter:
// MakeCounter(purpose, lane, step_index * 2^32 + position), so draws of different steps, positions,
// lanes and purposes are independent of one another and of the keyed draws. lane: index of the
// draft node. Both numbers in [0, 2^32).
double StepUniform(uint64_t seed, DrawPurpose purpose, int64_t step_index, uint32_t lane,
                   int64_t position);

// Gumbel noise of (seed, position, token) for many tokens, vectorised: out[i] belongs to
// candidates[i].token. The same bits as one call per token.
void GumbelNoise(std::span<const Candidate> candidates, uint64_t seed, int64_t position,
                 std::span<float> out);

}  // namespace tahmin
