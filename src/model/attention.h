// The attention block of one layer: norm, query/key/value, (per-head norm,) rope, keys and values
// into the cache, attention over the committed prefix and the row's ancestors, output projection,
// residual.
#pragma once

#include <cstdint>

#include "model/architecture.h"
#include "model/forward_scratch.h"

namespace tahmin {

// Updates scratch.hidden. In the last layer the rows that want no logits are dropped as soon as
// their keys and values are stored: scratch.num_rows may shrink, to 0 even, and nothing else is
// done then.
void AttentionBlock(const ForwardPass& pass, int32_t layer_index);

}  // namespace tahmin
