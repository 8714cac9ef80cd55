#include "draft/fused.h"

#include <algorithm>

#include "base/check.h"

namespace tahmin {

void FusedTree::Add(const DraftTree& own, std::span<const float> acceptance) {
  TAHMIN_CHECK(acceptance.size() == own.nodes.size());
  const int32_t drafter = num_drafters();
  std::vector<int32_t>& map = node_maps_.emplace_back();
  map.reserve(own.nodes.size());
  for (int32_t i = 0; i < own.size(); ++i) {
    const DraftNode& node = own.nodes[i];
    TAHMIN_CHECK(node.parent >= kRoot && node.parent < i);
    const int32_t parent = node.parent == kRoot ? kRoot : map[node.parent];
    int32_t merged = tree_.FindChild(parent, node.token);
    if (merged < 0) {
      merged = tree_.size();
      tree_.nodes.push_back(node);
      tree_.nodes.back().parent = parent;
      tree_.nodes.back().confidence = acceptance[i];
      drafter_of_.push_back(drafter);
    } else {
      DraftNode& copy = tree_.nodes[merged];
      copy.confidence = std::max(copy.confidence, acceptance[i]);
      copy.is_probe |= node.is_probe;
    }
    map.push_back(merged);
  }
}

void FusedTree::Keep(const std::vector<bool>& is_kept) {
  TAHMIN_CHECK(is_kept.size() == tree_.nodes.size());
  std::vector<int32_t> new_index(tree_.nodes.size(), -1);
  DraftTree kept;
  std::vector<int32_t> kept_drafter;
  for (int32_t i = 0; i < tree_.size(); ++i) {
    const int32_t parent = tree_.nodes[i].parent;
    const bool has_parent = parent == kRoot || new_index[parent] >= 0;
    if (!is_kept[i] || !has_parent) continue;
    new_index[i] = kept.size();
    kept.nodes.push_back(std::move(tree_.nodes[i]));
    kept.nodes.back().parent = parent == kRoot ? kRoot : new_index[parent];
    kept_drafter.push_back(drafter_of_[i]);
  }
  for (std::vector<int32_t>& map : node_maps_) {
    for (int32_t& node : map) node = node < 0 ? -1 : new_index[node];
  }
  tree_ = std::move(kept);
  drafter_of_ = std::move(kept_drafter);
}

std::vector<float> SurvivalOf(const DraftTree& tree) {
  std::vector<float> survival(tree.nodes.size());
  for (int32_t i = 0; i < tree.size(); ++i) {
    const int32_t parent = tree.nodes[i].parent;
    survival[i] = tree.nodes[i].confidence * (parent == kRoot ? 1.0f : survival[parent]);
  }
  return survival;
}

}  // namespace tahmin
