// A root token and its draft tree as the rows of a batch: row 0 is the root, row 1 + i is node i,
// parents before children, position = committed length + depth; the parent links are the tree mask.
#pragma once

#include <cstdint>
#include <vector>

#include "step/draft_tree.h"
#include "step/token_batch.h"

namespace tahmin {

// Appends 1 + tree.size() rows, all with logits, for `sequence` to the batch.
void AppendTree(int32_t sequence, int32_t root_token, const DraftTree& tree, TokenBatch* batch);

// Cuts a drafter's tree to what may be submitted: at most max_tokens nodes, max_depth levels, ids
// in [0, valid_vocab_size), no duplicate sibling; a node goes with its ancestor. node_map[i] = new
// index of node i or -1.
struct ClippedTree {
  DraftTree tree;
  std::vector<int32_t> node_map;
};
ClippedTree ClipTree(const DraftTree& tree, int32_t max_tokens, int32_t max_depth,
                     int32_t valid_vocab_size);

}  // namespace tahmin
