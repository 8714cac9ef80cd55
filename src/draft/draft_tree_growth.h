// The draft tree of a draft model while it grows: which nodes are worth a row of the next draft
// pass, and which of all that were offered make the tree. Best-first by cumulative confidence, as
// EAGLE-2 does it (Li et al., arXiv 2406.16858, section 4), but without fixed sizes per level: a
// pass runs every node whose children may still displace a chosen one. Pure bookkeeping, no model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "draft/draft_choices.h"
#include "step/draft_budget.h"
#include "step/draft_tree.h"

namespace tahmin {

class DraftTreeGrowth {
 public:
  // A child has on average at most this part of its parent's survival. Nodes whose children would
  // then rank below the tree's last node are not worth a row.
  static constexpr float kChildShare = 0.7f;

  explicit DraftTreeGrowth(const DraftBudget& budget);

  // Offers the best max_width choices as children of `parent` (kRoot or a node that has none yet).
  // Those that survive less than budget.min_survival stay, but get no children.
  void Expand(int32_t parent, std::span<const DraftChoice> choices);

  // Nodes to expand next, best first; empty: the tree is grown.
  std::vector<int32_t> Frontier() const;

  // The deepest node that all of `nodes` (not empty) hang below, or kRoot.
  int32_t CommonAncestor(std::span<const int32_t> nodes) const;
  // From the child of `ancestor` down to `node`, which hangs below it (or is it: empty).
  std::vector<int32_t> PathBelow(int32_t ancestor, int32_t node) const;

  int32_t TokenOf(int32_t node) const { return nodes_[node].token; }
  int32_t ParentOf(int32_t node) const { return nodes_[node].parent; }
  float SurvivalOf(int32_t node) const { return nodes_[node].survival; }

  // The best max_tokens nodes, parents first.
  DraftTree Tree() const;

 private:
  struct Node {
    int32_t token, parent, depth;
    float confidence;
    float survival;         // product of the confidences on its path
    float scaled_survival;  // the same of the scaled ones
    bool is_expanded = false;
  };
  std::vector<int32_t> Chosen() const;  // best first

  const DraftBudget budget_;
  std::vector<Node> nodes_;  // parents first
};

}  // namespace tahmin
