#include <algorithm>
#include <cmath>
#include <limits>

#include "sampling/filters.h"

namespace tahmin {
namespace {

// Ranks the candidates from `begin` on and adds up their weights in that order until the sum
// reaches `target`; then cuts the list there and returns true.
bool RankUntil(double target, float max, size_t begin, std::vector<Candidate>& candidates,
               double& cumulative) {
  RankFrom(begin, candidates);
  for (size_t i = begin; i < candidates.size(); ++i) {
    cumulative += std::exp(static_cast<double>(candidates[i].logit) - max);
    if (cumulative < target) continue;
    candidates.resize(i + 1);
    return true;
  }
  return false;
}

}  // namespace

void SelectTopP(std::span<const float> row, const RowScan& scan, float p,
                std::vector<Candidate>& candidates) {
  double total = 0;
  for (const float logit : row) total += std::exp(static_cast<double>(logit) - scan.max);
  const double target = p * total;
  // Nearly always the tokens within e^-10 of the best suffice, and they are few: the rest of
  // the vocabulary is ranked only where it is needed.
  constexpr float kNearBand = 10.0f;
  constexpr float kLowest = -std::numeric_limits<float>::max();
  const float split = std::max(scan.max - kNearBand, kLowest);
  candidates.clear();
  double cumulative = 0;
  CollectBetween(row, scan, split, std::numeric_limits<float>::infinity(), candidates);
  if (RankUntil(target, scan.max, 0, candidates, cumulative)) return;
  const size_t num_near = candidates.size();
  CollectBetween(row, scan, kLowest, split, candidates);
  RankUntil(target, scan.max, num_near, candidates, cumulative);
}

void KeepTopP(float p, std::vector<Candidate>& candidates) {
  if (candidates.empty()) return;
  const double max = candidates.front().logit;
  double total = 0;
  for (const Candidate& candidate : candidates) total += std::exp(candidate.logit - max);
  const double target = p * total;
  double cumulative = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    cumulative += std::exp(candidates[i].logit - max);
    if (cumulative < target) continue;
    candidates.resize(i + 1);
    return;
  }
}

}  // namespace tahmin
