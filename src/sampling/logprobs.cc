#include "sampling/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sampling/filters.h"
#include "sampling/row_scan.h"

namespace tahmin {
namespace {

double LogSumExpFrom(std::span<const float> logits, float max) {
  if (!std::isfinite(max)) return max;
  double total = 0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit) - max);
  return max + std::log(total);
}

}  // namespace

double LogSumExp(std::span<const float> logits) {
  float max = -std::numeric_limits<float>::infinity();
  for (const float logit : logits) max = std::max(max, logit);
  return LogSumExpFrom(logits, max);
}

std::vector<TokenLogprob> TopLogprobs(std::span<const float> logits, int32_t n) {
  std::vector<TokenLogprob> top;
  if (n <= 0 || logits.empty()) return top;
  RowScan scan;
  ScanRow(logits, scan);
  std::vector<Candidate> best;
  SelectTopK(logits, scan, n, best);
  const double log_sum = LogSumExpFrom(logits, scan.max);
  for (const Candidate& candidate : best) {
    top.push_back({candidate.token, static_cast<float>(candidate.logit - log_sum)});
  }
  return top;
}

}  // namespace tahmin
