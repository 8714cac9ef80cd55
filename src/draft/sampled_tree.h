// A draft tree whose tokens are sampled, for the rejection rule. How many children each node has,
// and in which order, is fixed by the budget before the first token is drawn: were the drawn tokens
// to decide it, those that stay would no longer be draws from q. Siblings are drawn without
// replacement (Chen et al., "Sequoia", arXiv 2402.12374; Jeon et al., "Recursive speculative
// decoding", arXiv 2402.14160): each from q without its earlier siblings, renormalised, and that
// distribution is recorded in the node. Pure bookkeeping, no model.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "draft/draft_tree_growth.h"
#include "step/draft_budget.h"
#include "step/draft_tree.h"

namespace tahmin {

// The parent of each place (kRoot or an earlier place) of the tree with the most expected tokens
// when every draw is accepted with the same probability; siblings in the order of drawing. At most
// max_tokens places, max_depth deep and max_width wide.
std::vector<int32_t> SampledTreeShape(const DraftBudget& budget);

// Nodes below `parent` in the order of drawing; the confidence is the token's probability under its
// own q. uniform(i) in (0, 1) is the i-th draw's. Fewer than num_draws when the support of q is
// smaller.
std::vector<DraftNode> DrawSiblings(const TokenDistribution& q, int32_t num_draws, int32_t parent,
                                    const std::function<double(int32_t)>& uniform);

class SampledTree {
 public:
  explicit SampledTree(const DraftBudget& budget);

  // Draws the children that the shape gives `node` (kRoot or a node of growth() that has none yet)
  // from q. uniform(place) in (0, 1) belongs to the place of the shape that is drawn for.
  void Expand(int32_t node, const TokenDistribution& q,
              const std::function<double(int32_t)>& uniform);
  // Nodes of growth() that are still to have children, parents first; empty: the tree is complete.
  std::vector<int32_t> Frontier() const;
  // The nodes so far as the draft cache wants them.
  const DraftTreeGrowth& growth() const { return growth_; }

  // In the order of the shape; places that could not be drawn are left out.
  DraftTree Tree() const;

 private:
  struct Place {
    int32_t parent = kRoot;
    std::vector<int32_t> children = {};  // places, in the order of drawing
    bool is_drawn = false, is_expanded = false;
    DraftNode node = {};
  };

  std::vector<Place> places_;
  std::vector<int32_t> root_children_;
  std::vector<int32_t> place_of_;  // of each node of growth_
  DraftTreeGrowth growth_;
};

}  // namespace tahmin
