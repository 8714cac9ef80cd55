// Chooses nodes of a draft tree by the chance that they are emitted (the product of the confidences
// on their path). Pure arithmetic.
#pragma once

#include <cstdint>
#include <vector>

#include "step/draft_tree.h"

namespace tahmin {

// Nodes by survival, largest first, lower index among equals: a prefix of this order is a tree.
struct RankedNodes {
  std::vector<int32_t> order;
  std::vector<float> survival;  // by node
};
RankedNodes RankBySurvival(const DraftTree& tree);

// Expected tokens of a step that submits the first n of them, n = 0 .. size: 1 + their survivals.
std::vector<double> ExpectedTokensOfPrefixes(const RankedNodes& ranked);

// The first `count` nodes of the order, and probes (with their ancestors) as long as the total
// stays within max_tokens.
std::vector<bool> KeepBest(const DraftTree& tree, const RankedNodes& ranked, int32_t count,
                           int32_t max_tokens);

}  // namespace tahmin
