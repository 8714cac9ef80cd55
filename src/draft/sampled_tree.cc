#include "draft/sampled_tree.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "base/check.h"
#include "sampling/keyed_draw.h"

namespace tahmin {
namespace {

// What a draw is taken to be accepted with where the shape is chosen. Draft models of the same
// family reach 0.5 to 0.9 on their first token; the shape changes little in between.
constexpr double kNominalAcceptance = 0.6;

// A child that may join the shape.
struct Offer {
  double survival = 0;
  int32_t parent = kRoot;
  int32_t rank = 0;  // among its siblings
  int32_t depth = 1;

  bool operator<(const Offer& other) const {
    if (survival != other.survival) return survival < other.survival;
    return parent != other.parent ? parent > other.parent : rank > other.rank;
  }
};

TokenDistribution Without(const TokenDistribution& q, int32_t token) {
  TokenDistribution rest;
  double mass = 0;
  for (const TokenProbability& entry : q.entries) {
    if (entry.token == token) continue;
    rest.entries.push_back(entry);
    mass += entry.probability;
  }
  for (TokenProbability& entry : rest.entries) entry.probability /= mass;
  return rest;
}

}  // namespace

std::vector<int32_t> SampledTreeShape(const DraftBudget& budget) {
  std::vector<int32_t> parents;
  std::priority_queue<Offer> offers;
  if (budget.max_depth > 0 && budget.max_width > 0) offers.push({.survival = kNominalAcceptance});
  while (!offers.empty() && static_cast<int32_t>(parents.size()) < budget.max_tokens) {
    const Offer best = offers.top();
    offers.pop();
    const auto place = static_cast<int32_t>(parents.size());
    parents.push_back(best.parent);
    if (best.rank + 1 < budget.max_width) {  // tested only when this one was rejected
      offers.push(
          {best.survival * (1 - kNominalAcceptance), best.parent, best.rank + 1, best.depth});
    }
    if (best.depth < budget.max_depth)
      offers.push({best.survival * kNominalAcceptance, place, 0, best.depth + 1});
  }
  return parents;
}

std::vector<DraftNode> DrawSiblings(const TokenDistribution& q, int32_t num_draws, int32_t parent,
                                    const std::function<double(int32_t)>& uniform) {
  std::vector<DraftNode> siblings;
  TokenDistribution left = q;
  for (int32_t i = 0; i < num_draws && !left.entries.empty(); ++i) {
    DraftNode node{.token = DrawFrom(left, uniform(i)), .parent = parent};
    node.confidence = static_cast<float>(left.ProbabilityOf(node.token));
    TokenDistribution rest = Without(left, node.token);
    node.q = std::exchange(left, std::move(rest));
    siblings.push_back(std::move(node));
  }
  return siblings;
}

SampledTree::SampledTree(const DraftBudget& budget) : growth_(budget) {
  for (const int32_t parent : SampledTreeShape(budget)) {
    const auto place = static_cast<int32_t>(places_.size());
    places_.push_back({.parent = parent});
    (parent == kRoot ? root_children_ : places_[parent].children).push_back(place);
  }
}

void SampledTree::Expand(int32_t node, const TokenDistribution& q,
                         const std::function<double(int32_t)>& uniform) {
  const int32_t parent = node == kRoot ? kRoot : place_of_[node];
  const std::vector<int32_t>& children =
      parent == kRoot ? root_children_ : places_[parent].children;
  if (parent != kRoot) places_[parent].is_expanded = true;
  std::vector<DraftNode> drawn = DrawSiblings(q, static_cast<int32_t>(children.size()), parent,
                                              [&](int32_t i) { return uniform(children[i]); });
  std::vector<DraftChoice> choices;
  for (size_t i = 0; i < drawn.size(); ++i) {
    Place& place = places_[children[i]];
    choices.push_back({drawn[i].token, drawn[i].confidence});
    place.is_drawn = true;
    place.node = std::move(drawn[i]);
    place_of_.push_back(children[i]);
  }
  growth_.Expand(node, choices);
}

std::vector<int32_t> SampledTree::Frontier() const {
  std::vector<int32_t> frontier;
  for (size_t node = 0; node < place_of_.size(); ++node) {
    const Place& place = places_[place_of_[node]];
    if (!place.is_expanded && !place.children.empty())
      frontier.push_back(static_cast<int32_t>(node));
  }
  return frontier;
}

DraftTree SampledTree::Tree() const {
  DraftTree tree;
  std::vector<int32_t> index_of(places_.size(), kRoot);
  for (size_t i = 0; i < places_.size(); ++i) {
    if (!places_[i].is_drawn) continue;
    index_of[i] = tree.size();
    tree.nodes.push_back(places_[i].node);
    const int32_t parent = places_[i].parent;
    tree.nodes.back().parent = parent == kRoot ? kRoot : index_of[parent];
  }
  return tree;
}

}  // namespace tahmin
