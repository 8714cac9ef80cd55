// The probability arithmetic of the rejection rule on explicit distributions, apart from logits and
// random numbers so that it can be enumerated exactly.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "step/token_distribution.h"

namespace tahmin {

// Probability that `token`, drawn from q, is accepted under p: min(1, p(token) / q(token)).
// An empty q is the point mass on `token`.
double AcceptanceProbability(const TokenDistribution& p, const TokenDistribution& q, int32_t token);

// max(0, p - q) renormalised; p itself where that mass is zero (p == q up to rounding). An empty q
// is the point mass on `token`.
TokenDistribution ResidualDistribution(const TokenDistribution& p, const TokenDistribution& q,
                                       int32_t token);

// A wrong q would silently bend the output's distribution, so what can be seen of it is checked:
// INVALID_ARGUMENT, naming the node, when q does not add up to 1 or cannot have given `token`.
absl::Status CheckDrawnFrom(const TokenDistribution& q, int32_t token, int32_t node);

}  // namespace tahmin
