#include <algorithm>
#include <functional>
#include <limits>

#include "sampling/filters.h"

namespace tahmin {

void CollectBetween(std::span<const float> row, const RowScan& scan, float low, float high,
                    std::vector<Candidate>& candidates) {
  for (size_t block = 0; block < scan.block_max.size(); ++block) {
    if (scan.block_max[block] < low) continue;
    const size_t begin = block * kScanBlock;
    const size_t end = std::min(begin + kScanBlock, row.size());
    for (size_t i = begin; i < end; ++i) {
      if (row[i] >= low && row[i] < high) candidates.push_back({static_cast<int32_t>(i), row[i]});
    }
  }
}

void SelectTopK(std::span<const float> row, const RowScan& scan, int32_t k,
                std::vector<Candidate>& candidates) {
  candidates.clear();
  const size_t wanted = static_cast<size_t>(k);
  // At least `wanted` logits are >= the wanted-th largest block maximum, so nothing below it
  // survives.
  float threshold = -std::numeric_limits<float>::max();
  if (wanted < scan.block_max.size()) {
    std::vector<float> maxima = scan.block_max;
    std::nth_element(maxima.begin(), maxima.begin() + (wanted - 1), maxima.end(),
                     std::greater<float>());
    threshold = std::max(threshold, maxima[wanted - 1]);
  }
  CollectBetween(row, scan, threshold, std::numeric_limits<float>::infinity(), candidates);
  if (wanted >= candidates.size()) {
    RankFrom(0, candidates);
    return;
  }
  std::nth_element(candidates.begin(), candidates.begin() + wanted, candidates.end(), RanksBefore);
  candidates.resize(wanted);
  std::sort(candidates.begin(), candidates.end(), RanksBefore);
}

}  // namespace tahmin
