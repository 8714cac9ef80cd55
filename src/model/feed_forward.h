// The feed-forward block of one layer: norm, down(silu(gate x) * up x), residual.
#pragma once

#include "model/architecture.h"
#include "model/forward_scratch.h"

namespace tahmin {

// Updates scratch.hidden.
void FeedForwardBlock(const ForwardPass& pass, const LayerWeights& layer);

}  // namespace tahmin
