#include "control/node_selection.h"

#include <algorithm>
#include <numeric>

namespace tahmin {
namespace {

// Nodes on the path to `node`, itself included, that are not kept yet.
int32_t MissingOnPath(const DraftTree& tree, const std::vector<bool>& is_kept, int32_t node) {
  int32_t missing = 0;
  for (; node != kRoot && !is_kept[node]; node = tree.nodes[node].parent) ++missing;
  return missing;
}

}  // namespace

RankedNodes RankBySurvival(const DraftTree& tree) {
  RankedNodes ranked;
  ranked.survival.resize(tree.nodes.size());
  for (int32_t i = 0; i < tree.size(); ++i) {
    const int32_t parent = tree.nodes[i].parent;
    const float above = parent == kRoot ? 1.0f : ranked.survival[parent];
    ranked.survival[i] = above * std::clamp(tree.nodes[i].confidence, 0.0f, 1.0f);
  }
  ranked.order.resize(tree.nodes.size());
  std::iota(ranked.order.begin(), ranked.order.end(), 0);
  std::stable_sort(ranked.order.begin(), ranked.order.end(), [&ranked](int32_t a, int32_t b) {
    return ranked.survival[a] > ranked.survival[b];
  });
  return ranked;
}

std::vector<double> ExpectedTokensOfPrefixes(const RankedNodes& ranked) {
  std::vector<double> expected = {1.0};
  for (int32_t node : ranked.order) expected.push_back(expected.back() + ranked.survival[node]);
  return expected;
}

std::vector<bool> KeepBest(const DraftTree& tree, const RankedNodes& ranked, int32_t count,
                           int32_t max_tokens) {
  std::vector<bool> is_kept(tree.nodes.size(), false);
  int32_t room = max_tokens;
  // Probes first: they were asked for; what is left goes to the best guesses.
  for (int32_t i = 0; i < tree.size(); ++i) {
    if (!tree.nodes[i].is_probe) continue;
    const int32_t missing = MissingOnPath(tree, is_kept, i);
    if (missing > room) continue;
    for (int32_t node = i; node != kRoot && !is_kept[node]; node = tree.nodes[node].parent) {
      is_kept[node] = true;
    }
    room -= missing;
  }
  for (int32_t node : ranked.order) {
    if (count-- <= 0 || room <= 0) break;
    if (is_kept[node]) continue;
    is_kept[node] = true;
    --room;
  }
  return is_kept;
}

}  // namespace tahmin
