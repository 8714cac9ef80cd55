// How much a drafter may guess in this step. Fixed before the first draft token is drawn
// (under the rejection rule the budget must not depend on drawn tokens).
#pragma once

#include <cstdint>

namespace tahmin {

struct DraftBudget {
  int32_t max_tokens = 0;  // nodes in the tree; 0: plain decoding
  int32_t max_depth = 0;   // longest path
  int32_t max_width = 1;   // children of one node; 1: a chain
};

}  // namespace tahmin
