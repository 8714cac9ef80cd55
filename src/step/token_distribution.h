// A probability distribution over token ids: p of the target or q of a draft, after every sampling
// transform. Sparse: ids that are absent have probability zero.
#pragma once

#include <cstdint>
#include <vector>

namespace tahmin {

struct TokenProbability {
  int32_t token;
  double probability;
};

struct TokenDistribution {
  // Sorted by probability descending, id ascending among equals; each > 0; they add up to 1 within
  // rounding. Empty only in a DraftNode, where it means a point mass on the node's own token.
  std::vector<TokenProbability> entries;

  double ProbabilityOf(int32_t token) const {
    for (const TokenProbability& entry : entries) {
      if (entry.token == token) return entry.probability;
    }
    return 0.0;
  }
};

}  // namespace tahmin
