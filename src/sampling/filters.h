// The single transforms that CandidateBuilder chains, one file each. A "row" is the logits after
// bias and penalties, with its scan; results are ranked (logit descending, id ascending among
// equals). A logit of -infinity never survives any of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sampling/candidates.h"
#include "sampling/row_scan.h"
#include "tahmin/options.h"

namespace tahmin {

// The one order of candidates: logit descending, id ascending among equals.
inline bool RanksBefore(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

// Appends all tokens with low <= logit < high in id order.
void CollectBetween(std::span<const float> row, const RowScan& scan, float low, float high,
                    std::vector<Candidate>& candidates);

// ranking.cc. Ranks the candidates from index `begin` on, which are in id order: a comparison sort
// for few, a radix sort for many.
void RankFrom(size_t begin, std::vector<Candidate>& candidates);

// penalties.cc. Bias first, then penalties, as llama.cpp does. `counts` is scratch.
bool ChangesLogits(const SamplingOptions& options);
void ApplyBiasAndPenalties(const SamplingOptions& options, std::span<const int32_t> history,
                           std::vector<std::pair<int32_t, int32_t>>& counts,
                           std::span<float> logits);

// top_k.cc. The k best; all of them when there are fewer.
void SelectTopK(std::span<const float> row, const RowScan& scan, int32_t k,
                std::vector<Candidate>& candidates);

// top_p.cc. The shortest ranked prefix whose cumulative probability is >= p, at least one
// candidate: out of a whole row, or out of ranked candidates (their probabilities renormalised).
void SelectTopP(std::span<const float> row, const RowScan& scan, float p,
                std::vector<Candidate>& candidates);
void KeepTopP(float p, std::vector<Candidate>& candidates);

// min_p.cc. Those at least min_p times as probable as the best one.
void SelectMinP(std::span<const float> row, const RowScan& scan, float min_p,
                std::vector<Candidate>& candidates);
void KeepMinP(float min_p, std::vector<Candidate>& candidates);

}  // namespace tahmin
