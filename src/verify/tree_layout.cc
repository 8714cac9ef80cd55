#include "verify/tree_layout.h"

#include <utility>

#include "base/check.h"

namespace tahmin {

void AppendTree(int32_t sequence, int32_t root_token, const DraftTree& tree, TokenBatch* batch) {
  const int32_t root_row = static_cast<int32_t>(batch->rows.size());
  batch->rows.push_back({.token = root_token,
                         .sequence = sequence,
                         .tree_slot = 0,
                         .parent_row = -1,
                         .depth = 0,
                         .wants_logits = true});
  for (int32_t i = 0; i < tree.size(); ++i) {
    const DraftNode& node = tree.nodes[i];
    TAHMIN_CHECK(node.parent >= kRoot && node.parent < i);
    const int32_t parent_row = root_row + 1 + node.parent;
    batch->rows.push_back({.token = node.token,
                           .sequence = sequence,
                           .tree_slot = 1 + i,
                           .parent_row = parent_row,
                           .depth = batch->rows[parent_row].depth + 1,
                           .wants_logits = true});
  }
}

ClippedTree ClipTree(const DraftTree& tree, int32_t max_tokens, int32_t max_depth,
                     int32_t valid_vocab_size) {
  ClippedTree clipped;
  clipped.node_map.assign(tree.nodes.size(), -1);
  std::vector<int32_t> depths;  // of the kept nodes; 1 below the root
  for (int32_t i = 0; i < tree.size(); ++i) {
    const DraftNode& node = tree.nodes[i];
    if (clipped.tree.size() >= max_tokens) break;
    if (node.token < 0 || node.token >= valid_vocab_size) continue;
    if (node.parent < kRoot || node.parent >= i) continue;
    const int32_t parent = node.parent == kRoot ? kRoot : clipped.node_map[node.parent];
    if (node.parent != kRoot && parent < 0) continue;  // its ancestor is gone
    const int32_t depth = parent == kRoot ? 1 : depths[parent] + 1;
    if (depth > max_depth || clipped.tree.FindChild(parent, node.token) >= 0) continue;

    DraftNode kept = node;
    kept.parent = parent;
    clipped.node_map[i] = clipped.tree.size();
    clipped.tree.nodes.push_back(std::move(kept));
    depths.push_back(depth);
  }
  return clipped;
}

}  // namespace tahmin
