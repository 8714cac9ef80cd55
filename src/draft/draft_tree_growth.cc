#include "draft/draft_tree_growth.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace tahmin {

DraftTreeGrowth::DraftTreeGrowth(const DraftBudget& budget) : budget_(budget) {}

void DraftTreeGrowth::Expand(int32_t parent, std::span<const DraftChoice> choices) {
  float survival = 1, scaled_survival = 1;
  int32_t depth = 1;
  if (parent != kRoot) {
    nodes_[parent].is_expanded = true;
    survival = nodes_[parent].survival;
    scaled_survival = nodes_[parent].scaled_survival;
    depth = nodes_[parent].depth + 1;
  }
  if (depth > budget_.max_depth) return;
  const size_t width = std::min<size_t>(choices.size(), std::max(budget_.max_width, 0));
  for (const DraftChoice& choice : choices.first(width)) {
    const float child_survival = scaled_survival * budget_.scale.Of(choice.confidence);
    nodes_.push_back({.token = choice.token,
                      .parent = parent,
                      .depth = depth,
                      .confidence = choice.confidence,
                      .survival = survival * choice.confidence,
                      .scaled_survival = child_survival});
  }
}

// A parent survives at least as well as its child and has the lower index, so it comes first and
// whatever is cut off is a set of whole branches.
std::vector<int32_t> DraftTreeGrowth::Chosen() const {
  std::vector<int32_t> chosen(nodes_.size());
  std::iota(chosen.begin(), chosen.end(), 0);
  const auto kept =
      chosen.begin() + std::min<size_t>(chosen.size(), std::max(budget_.max_tokens, 0));
  std::partial_sort(chosen.begin(), kept, chosen.end(), [this](int32_t a, int32_t b) {
    return nodes_[a].survival > nodes_[b].survival ||
           (nodes_[a].survival == nodes_[b].survival && a < b);
  });
  chosen.erase(kept, chosen.end());
  return chosen;
}

std::vector<int32_t> DraftTreeGrowth::Frontier() const {
  const std::vector<int32_t> chosen = Chosen();
  const bool is_full = static_cast<int32_t>(chosen.size()) >= budget_.max_tokens;
  const float bar = is_full && !chosen.empty() ? nodes_[chosen.back()].survival : 0;
  std::vector<int32_t> frontier;
  for (const int32_t index : chosen) {
    const Node& node = nodes_[index];
    if (node.is_expanded || node.depth >= budget_.max_depth) continue;
    if (node.survival * kChildShare <= bar) continue;
    if (node.scaled_survival < budget_.min_survival) continue;
    frontier.push_back(index);
  }
  return frontier;
}

int32_t DraftTreeGrowth::CommonAncestor(std::span<const int32_t> nodes) const {
  TAHMIN_CHECK(!nodes.empty());
  int32_t common = nodes_[nodes.front()].parent;
  for (const int32_t node : nodes.subspan(1)) {
    int32_t other = nodes_[node].parent;
    // Parents have lower indices.
    while (common != other) {
      int32_t& later = common > other ? common : other;
      later = nodes_[later].parent;
    }
  }
  return common;
}

std::vector<int32_t> DraftTreeGrowth::PathBelow(int32_t ancestor, int32_t node) const {
  std::vector<int32_t> path;
  for (; node != ancestor; node = nodes_[node].parent) {
    TAHMIN_CHECK(node != kRoot);
    path.push_back(node);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

DraftTree DraftTreeGrowth::Tree() const {
  std::vector<int32_t> chosen = Chosen();
  std::sort(chosen.begin(), chosen.end());
  std::vector<int32_t> index_in_tree(nodes_.size(), kRoot);
  DraftTree tree;
  for (const int32_t index : chosen) {
    const Node& node = nodes_[index];
    index_in_tree[index] = tree.size();
    tree.nodes.push_back({.token = node.token,
                          .parent = node.parent == kRoot ? kRoot : index_in_tree[node.parent],
                          .confidence = node.confidence});
  }
  return tree;
}

}  // namespace tahmin
