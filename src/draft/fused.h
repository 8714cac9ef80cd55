// Fused drafting: the trees of several drafters merged into one. Nodes with the same parent and
// token become one node; the tree is then cut to the nodes worth a row of the verify pass. Pure
// values: who drafts how much is the controller's business, the calls are the engine's
// (engine/draft_phase.cc). One object per step; decoding thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "step/draft_tree.h"

namespace tahmin {

class FusedTree {
 public:
  // Adds the next drafter's tree (drafter 0, 1, ... in call order; an empty tree counts).
  // acceptance[i]: estimate that own.nodes[i] is accepted given its parent. A copy keeps the
  // largest estimate and the credit of its first drafter. A sampled node (q not empty) must be the
  // only drafter's.
  void Add(const DraftTree& own, std::span<const float> acceptance);

  // Parents before children; DraftNode::confidence is the acceptance estimate.
  const DraftTree& tree() const { return tree_; }

  // Keeps the nodes for which is_kept is true; a node whose parent goes, goes too.
  void Keep(const std::vector<bool>& is_kept);

  int32_t num_drafters() const { return static_cast<int32_t>(node_maps_.size()); }
  // Node of the merged tree for each node of that drafter's own tree; -1: was cut.
  std::span<const int32_t> NodeMap(int32_t drafter) const { return node_maps_[drafter]; }
  // The drafter that is credited with a node.
  int32_t DrafterOf(int32_t node) const { return drafter_of_[node]; }

 private:
  DraftTree tree_;
  std::vector<int32_t> drafter_of_;
  std::vector<std::vector<int32_t>> node_maps_;
};

// Product of the confidences on the path to each node: the chance that the node is emitted.
std::vector<float> SurvivalOf(const DraftTree& tree);

}  // namespace tahmin
