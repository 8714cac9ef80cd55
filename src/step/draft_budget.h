// How much a drafter may guess in this step. Fixed before the first draft token is drawn
// (under the rejection rule the budget must not depend on drawn tokens).
#pragma once

#include <cstdint>

#include "step/confidence_scale.h"

namespace tahmin {

struct DraftBudget {
  int32_t max_tokens = 0;  // nodes in the tree; 0: plain decoding
  int32_t max_depth = 0;   // longest path
  int32_t max_width = 1;   // children of one node; 1: a chain
  // A drafter that pays for every token grows nothing below a node whose survival (the product of
  // the scaled confidences on its path) is less than this; the node itself stays, it is paid for.
  // 0: it drafts what the other limits allow. Always 0 under the rejection rule.
  float min_survival = 0;
  ConfidenceScale scale = {};
  // Further choices of a node, as leaves: a drafter that has ranked them anyway adds up to so many
  // to each node of a chain, the chain's own node first. Point masses only.
  int32_t spare_choices = 0;
  // A drafter with a context of its own reads at most so many earlier tokens before it drafts; with
  // more to read it starts over on the last ones. 0: it reads all.
  int32_t max_catch_up = 0;
};

}  // namespace tahmin
