// A drafter's guess: nodes in topological order (a parent comes before its children). The root
// token is not a node; nodes whose parent is kRoot hang on it. A chain is a tree of width one.
// Siblings carry different tokens. The empty tree is legal and means a plain step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "step/token_distribution.h"

namespace tahmin {

constexpr int32_t kRoot = -1;

struct DraftNode {
  int32_t token = 0;
  int32_t parent = kRoot;   // index into DraftTree::nodes, or kRoot
  float confidence = 1.0f;  // the drafter's estimate that the target agrees, given its parent
  bool is_probe = false;    // rides along for its logits; pruning by expected gain keeps it
  // The distribution that `token` was really drawn from. Empty: a deterministic pick (one-hot).
  TokenDistribution q = {};
};

struct DraftTree {
  std::vector<DraftNode> nodes;

  int32_t size() const { return static_cast<int32_t>(nodes.size()); }
  bool empty() const { return nodes.empty(); }
  // Nodes on the longest path.
  int32_t Depth() const {
    std::vector<int32_t> depths(nodes.size());
    int32_t deepest = 0;
    for (int32_t i = 0; i < size(); ++i) {
      depths[i] = nodes[i].parent == kRoot ? 1 : depths[nodes[i].parent] + 1;
      deepest = std::max(deepest, depths[i]);
    }
    return deepest;
  }
  // The child of `parent` (kRoot or a node) that carries `token`, or -1.
  int32_t FindChild(int32_t parent, int32_t token) const {
    for (int32_t i = parent + 1; i < size(); ++i) {
      if (nodes[i].parent == parent && nodes[i].token == token) return i;
    }
    return -1;
  }
};

}  // namespace tahmin
