// The probability arithmetic of the rejection rule on explicit distributions, apart from logits and
// random numbers so that it can be enumerated exactly.
#pragma once

#include <cstdint>

#include "step/token_distribution.h"

namespace tahmin {

// Probability that `token`, drawn from q, is accepted under p: min(1, p(token) / q(token)).
// An empty q is the point mass on `token`.
double AcceptanceProbability(const TokenDistribution& p, const TokenDistribution& q, int32_t token);

// max(0, p - q) renormalised; p itself where that mass is zero (p == q up to rounding). An empty q
// is the point mass on `token`.
TokenDistribution ResidualDistribution(const TokenDistribution& p, const TokenDistribution& q,
                                       int32_t token);

}  // namespace tahmin
