#include "accept/rejection_math.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tahmin {
namespace {

bool HasHigherProbability(const TokenProbability& a, const TokenProbability& b) {
  return a.probability > b.probability || (a.probability == b.probability && a.token < b.token);
}

std::vector<TokenProbability> SortedByToken(const TokenDistribution& q, int32_t token) {
  if (q.entries.empty()) return {{token, 1.0}};
  std::vector<TokenProbability> entries = q.entries;
  std::sort(entries.begin(), entries.end(),
            [](const TokenProbability& a, const TokenProbability& b) { return a.token < b.token; });
  return entries;
}

double ProbabilityIn(const std::vector<TokenProbability>& by_token, int32_t token) {
  const auto place = std::lower_bound(
      by_token.begin(), by_token.end(), token,
      [](const TokenProbability& entry, int32_t wanted) { return entry.token < wanted; });
  return place != by_token.end() && place->token == token ? place->probability : 0.0;
}

}  // namespace

double AcceptanceProbability(const TokenDistribution& p, const TokenDistribution& q,
                             int32_t token) {
  const double q_token = q.entries.empty() ? 1.0 : q.ProbabilityOf(token);
  TAHMIN_CHECK(q_token > 0);  // else it was never drawn from q
  return std::min(1.0, p.ProbabilityOf(token) / q_token);
}

TokenDistribution ResidualDistribution(const TokenDistribution& p, const TokenDistribution& q,
                                       int32_t token) {
  const std::vector<TokenProbability> q_by_token = SortedByToken(q, token);
  TokenDistribution residual;
  for (const TokenProbability& entry : p.entries) {
    const double rest = entry.probability - ProbabilityIn(q_by_token, entry.token);
    if (rest > 0) residual.entries.push_back({entry.token, rest});
  }
  if (residual.entries.empty()) return p;
  std::sort(residual.entries.begin(), residual.entries.end(), HasHigherProbability);
  double mass = 0;
  for (const TokenProbability& entry : residual.entries) mass += entry.probability;
  for (TokenProbability& entry : residual.entries) entry.probability /= mass;
  // The division can make two different masses equal; then the lower id comes first.
  std::sort(residual.entries.begin(), residual.entries.end(), HasHigherProbability);
  return residual;
}

absl::Status CheckDrawnFrom(const TokenDistribution& q, int32_t token, int32_t node) {
  if (q.entries.empty()) return absl::OkStatus();
  double total = 0;
  for (const TokenProbability& entry : q.entries) total += entry.probability;
  if (!(std::abs(total - 1) < 1e-6)) {
    return absl::InvalidArgumentError(
        fmt::format("draft: expected q of node {} to add up to 1, found {}", node, total));
  }
  if (!(q.ProbabilityOf(token) > 0)) {
    return absl::InvalidArgumentError(fmt::format(
        "draft: expected token {} of node {} to be drawn from its q, found probability 0 there",
        token, node));
  }
  return absl::OkStatus();
}

}  // namespace tahmin
