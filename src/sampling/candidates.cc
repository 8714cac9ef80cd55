#include "sampling/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/status_macros.h"
#include "sampling/filters.h"

namespace tahmin {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename Value>
absl::Status OutOfRange(const char* field, const char* range, Value value) {
  return absl::InvalidArgumentError(fmt::format("{}: expected {}, found {}", field, range, value));
}

bool HasHigherProbability(const TokenProbability& a, const TokenProbability& b) {
  return a.probability > b.probability || (a.probability == b.probability && a.token < b.token);
}

}  // namespace

absl::Status ValidateSamplingOptions(const SamplingOptions& options, int32_t vocab_size) {
  // Written so that a NaN fails every comparison.
  if (!(options.temperature >= 0 && options.temperature < kInfinity)) {
    return OutOfRange("temperature", "a finite number >= 0", options.temperature);
  }
  if (options.top_k < 0) return OutOfRange("top_k", "an integer >= 0", options.top_k);
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    return OutOfRange("top_p", "a number in (0, 1]", options.top_p);
  }
  if (!(options.min_p >= 0 && options.min_p < 1)) {
    return OutOfRange("min_p", "a number in [0, 1)", options.min_p);
  }
  if (!(options.repeat_penalty > 0 && options.repeat_penalty < kInfinity)) {
    return OutOfRange("repeat_penalty", "a finite number > 0", options.repeat_penalty);
  }
  if (!std::isfinite(options.frequency_penalty)) {
    return OutOfRange("frequency_penalty", "a finite number", options.frequency_penalty);
  }
  if (!std::isfinite(options.presence_penalty)) {
    return OutOfRange("presence_penalty", "a finite number", options.presence_penalty);
  }
  if (options.penalty_window < -1) {
    return OutOfRange("penalty_window", "an integer >= -1", options.penalty_window);
  }
  for (const auto& [token, bias] : options.logit_bias) {
    if (token < 0 || token >= vocab_size) {
      return absl::InvalidArgumentError(
          fmt::format("logit_bias: expected token ids in [0, {}), found {}", vocab_size, token));
    }
    if (!(bias < kInfinity)) {
      return absl::InvalidArgumentError(fmt::format(
          "logit_bias: expected a finite number or -infinity for token {}, found {}", token, bias));
    }
  }
  return absl::OkStatus();
}

CandidateBuilder::CandidateBuilder(SamplingOptions options) : options_(std::move(options)) {}

absl::StatusOr<std::span<const Candidate>> CandidateBuilder::Build(std::span<const float> logits,
                                                                   std::span<const int32_t> history,
                                                                   int32_t valid_vocab_size) {
  TAHMIN_CHECK(valid_vocab_size >= 0);
  std::span<const float> row =
      logits.first(std::min(logits.size(), static_cast<size_t>(valid_vocab_size)));
  if (ChangesLogits(options_)) {
    adjusted_.assign(row.begin(), row.end());
    ApplyBiasAndPenalties(options_, history, counts_, adjusted_);
    row = adjusted_;
  }
  ScanRow(row, scan_);
  TAHMIN_RETURN_IF_ERROR(CheckScan(row));
  if (options_.temperature == 0) {
    KeepBest(row);
  } else {
    Filter(row);
    ApplyTemperature();
  }
  return std::span<const Candidate>(candidates_);
}

absl::Status CandidateBuilder::CheckScan(std::span<const float> row) const {
  if (scan_.has_nan) {
    const auto nan =
        std::find_if(row.begin(), row.end(), [](float value) { return std::isnan(value); });
    return absl::InternalError(fmt::format("expected finite logits, found NaN for token {} of {}",
                                           nan - row.begin(), row.size()));
  }
  if (scan_.max == kInfinity) {
    const auto infinite = std::find(row.begin(), row.end(), kInfinity);
    return absl::InternalError(
        fmt::format("expected finite logits, found +infinity for token {} of {}",
                    infinite - row.begin(), row.size()));
  }
  if (scan_.max == -kInfinity) {
    return absl::InternalError(
        fmt::format("expected at least one candidate, found all {} tokens banned (logit -infinity)",
                    row.size()));
  }
  return absl::OkStatus();
}

void CandidateBuilder::KeepBest(std::span<const float> row) {
  const auto block = std::find(scan_.block_max.begin(), scan_.block_max.end(), scan_.max);
  const size_t begin = (block - scan_.block_max.begin()) * kScanBlock;
  const auto best = std::find(row.begin() + begin, row.end(), scan_.max);
  candidates_.assign(1, {static_cast<int32_t>(best - row.begin()), *best});
}

void CandidateBuilder::Filter(std::span<const float> row) {
  const bool has_top_p = options_.top_p < 1;
  const bool has_min_p = options_.min_p > 0;
  if (options_.top_k > 0) {
    SelectTopK(row, scan_, options_.top_k, candidates_);
    if (has_top_p) KeepTopP(options_.top_p, candidates_);
    if (has_min_p) KeepMinP(options_.min_p, candidates_);
  } else if (has_top_p) {
    SelectTopP(row, scan_, options_.top_p, candidates_);
    if (has_min_p) KeepMinP(options_.min_p, candidates_);
  } else if (has_min_p) {
    SelectMinP(row, scan_, options_.min_p, candidates_);
  } else {
    CollectAll(row);
  }
}

void CandidateBuilder::CollectAll(std::span<const float> row) {
  candidates_.clear();
  candidates_.reserve(row.size());
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] > -kInfinity) candidates_.push_back({static_cast<int32_t>(i), row[i]});
  }
}

void CandidateBuilder::ApplyTemperature() {
  for (Candidate& candidate : candidates_) {
    candidate.logit = (candidate.logit - scan_.max) / options_.temperature;
  }
  // A tiny temperature can push a logit out of the range of floats; it then is a ban.
  std::erase_if(candidates_,
                [](const Candidate& candidate) { return candidate.logit == -kInfinity; });
}

TokenDistribution ToDistribution(std::span<const Candidate> candidates) {
  TAHMIN_CHECK(!candidates.empty());
  float max = -kInfinity;
  for (const Candidate& candidate : candidates) max = std::max(max, candidate.logit);
  TokenDistribution distribution;
  std::vector<TokenProbability>& entries = distribution.entries;
  entries.reserve(candidates.size());
  for (const Candidate& candidate : candidates) {
    const double weight = std::exp(static_cast<double>(candidate.logit) - max);
    if (weight > 0) entries.push_back({candidate.token, weight});
  }
  // Twice, because the division can make two different weights equal.
  if (!std::is_sorted(entries.begin(), entries.end(), HasHigherProbability)) {
    std::sort(entries.begin(), entries.end(), HasHigherProbability);
  }
  double total = 0;
  for (const TokenProbability& entry : entries) total += entry.probability;
  for (TokenProbability& entry : entries) entry.probability /= total;
  while (entries.back().probability == 0) entries.pop_back();
  if (!std::is_sorted(entries.begin(), entries.end(), HasHigherProbability)) {
    std::sort(entries.begin(), entries.end(), HasHigherProbability);
  }
  return distribution;
}

}  // namespace tahmin
