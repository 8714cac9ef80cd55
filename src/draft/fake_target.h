// For tests of drafters: a target that is a function of the tokens so far, with greedy acceptance.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "draft/drafter.h"

namespace tahmin {

class FakeTarget {
 public:
  using Logits = std::function<std::vector<float>(const std::vector<int32_t>& context)>;

  explicit FakeTarget(Logits logits) : logits_(std::move(logits)) {}

  // One-hot rows out of the next token.
  static FakeTarget Of(int32_t vocab_size,
                       std::function<int32_t(const std::vector<int32_t>&)> next) {
    return FakeTarget([vocab_size, next = std::move(next)](const std::vector<int32_t>& context) {
      std::vector<float> row(vocab_size, 0.0f);
      row[next(context)] = 10;
      return row;
    });
  }

  int32_t Next(const std::vector<int32_t>& context) const {
    const std::vector<float> row = logits_(context);
    return static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
  }

  // Valid until the next call.
  VerifiedTree Verify(const std::vector<int32_t>& tokens, const DraftTree& tree) {
    rows_ = logits_(tokens);
    const auto vocab_size = static_cast<int32_t>(rows_.size());
    for (int32_t i = 0; i < tree.size(); ++i) {
      std::vector<int32_t> path;
      for (int32_t node = i; node != kRoot; node = tree.nodes[node].parent) {
        path.push_back(tree.nodes[node].token);
      }
      std::vector<int32_t> context = tokens;
      context.insert(context.end(), path.rbegin(), path.rend());
      const std::vector<float> row = logits_(context);
      rows_.insert(rows_.end(), row.begin(), row.end());
    }
    return {.logits = rows_, .vocab_size = vocab_size};
  }

  // One step of a drafter: draft, verify, accept, observe. The tree it proposed.
  DraftTree Step(const DraftBudget& budget, Drafter& drafter, std::vector<int32_t>& tokens) {
    const DraftTree tree = drafter.Draft({.tokens = tokens}, budget);
    const VerifiedTree verified = Verify(tokens, tree);
    AcceptedPath path;
    for (int32_t node = kRoot;;) {
      const std::span<const float> row = verified.LogitsOf(node);
      path.tokens.push_back(
          static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin()));
      node = tree.FindChild(node, path.tokens.back());
      if (node < 0) break;
      path.nodes.push_back(node);
    }
    tokens.insert(tokens.end(), path.tokens.begin(), path.tokens.end());
    std::vector<int32_t> node_map(tree.nodes.size());
    for (size_t i = 0; i < node_map.size(); ++i) node_map[i] = static_cast<int32_t>(i);
    drafter.Observe({.tokens = tokens}, tree, verified, path, node_map);
    return tree;
  }

 private:
  Logits logits_;
  std::vector<float> rows_;
};

// What the interface promises of every tree: within the budget, parents first, ids in [0,
// vocab_size), siblings differ, confidences in (0, 1]. Empty: all of it holds.
inline const char* BrokenPromise(const DraftTree& tree, const DraftBudget& budget,
                                 int32_t vocab_size) {
  if (tree.size() > budget.max_tokens) return "too many nodes";
  std::vector<int32_t> depths, num_children(tree.nodes.size() + 1, 0);
  for (int32_t i = 0; i < tree.size(); ++i) {
    const DraftNode& node = tree.nodes[i];
    if (node.parent < kRoot || node.parent >= i) return "a child before its parent";
    depths.push_back(node.parent == kRoot ? 1 : depths[node.parent] + 1);
    if (depths.back() > budget.max_depth) return "too deep";
    if (++num_children[node.parent + 1] > budget.max_width) return "too wide";
    if (node.token < 0 || node.token >= vocab_size) return "an id outside the vocabulary";
    if (!(node.confidence > 0 && node.confidence <= 1)) return "a confidence outside (0, 1]";
    if (tree.FindChild(node.parent, node.token) != i) return "equal siblings";
  }
  return "";
}

}  // namespace tahmin
