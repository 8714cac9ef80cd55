// `recycling`: the target's own candidates, thrown away by every other method, are the guess. Each
// verified row leaves its likeliest successors in a matrix (recycling_matrix.h); a draft walks that
// matrix from the root token and takes the nodes most likely to be accepted first.
// Luo et al., "Turning trash into treasure: accelerating inference of large language models with
// token recycling", arXiv 2408.08696. Where we differ: the tree is grown best-first by learnt
// acceptance within the budget (the paper's static one has 80 nodes, which a CPU cannot afford),
// pairs of tokens have rows of their own, and the prompt's own bigrams are successors from the
// start (the prefill gives no logits of its rows).
#pragma once

#include <cstdint>
#include <memory>

#include "draft/drafter.h"

namespace tahmin {

class RecyclingMatrix;

// matrix: outlives the drafter. Null: the drafter keeps its own, of vocab_size ids, which is
// forgotten with it.
std::unique_ptr<Drafter> MakeTokenRecycling(RecyclingMatrix* matrix, int32_t vocab_size);

}  // namespace tahmin
