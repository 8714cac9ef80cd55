#include <algorithm>
#include <cfloat>
#include <cmath>

#include "sampling/filters.h"

namespace tahmin {
namespace {

// Rounded to float once; a finite logit stays finite whatever the penalty's size.
float ToFiniteFloat(double value) {
  return static_cast<float>(
      std::clamp(value, -static_cast<double>(FLT_MAX), static_cast<double>(FLT_MAX)));
}

bool HasPenalties(const SamplingOptions& options) {
  return options.penalty_window != 0 &&
         (options.repeat_penalty != 1.0f || options.frequency_penalty != 0.0f ||
          options.presence_penalty != 0.0f);
}

std::span<const int32_t> PenaltyWindow(std::span<const int32_t> history, int32_t window) {
  if (window < 0 || static_cast<size_t>(window) >= history.size()) return history;
  return history.last(static_cast<size_t>(window));
}

// Each distinct token of the window once, with its number of occurrences.
void CountTokens(std::span<const int32_t> window,
                 std::vector<std::pair<int32_t, int32_t>>& counts) {
  counts.clear();
  for (const int32_t token : window) counts.emplace_back(token, 1);
  std::sort(counts.begin(), counts.end());
  size_t num_distinct = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (num_distinct > 0 && counts[num_distinct - 1].first == counts[i].first) {
      ++counts[num_distinct - 1].second;
    } else {
      counts[num_distinct++] = counts[i];
    }
  }
  counts.resize(num_distinct);
}

float Penalise(float logit, int32_t count, const SamplingOptions& options) {
  if (!std::isfinite(logit)) return logit;
  const double repeat = options.repeat_penalty;
  double value = logit > 0 ? logit / repeat : logit * repeat;
  value -= static_cast<double>(count) * options.frequency_penalty + options.presence_penalty;
  return ToFiniteFloat(value);
}

}  // namespace

bool ChangesLogits(const SamplingOptions& options) {
  return !options.logit_bias.empty() || HasPenalties(options);
}

void ApplyBiasAndPenalties(const SamplingOptions& options, std::span<const int32_t> history,
                           std::vector<std::pair<int32_t, int32_t>>& counts,
                           std::span<float> logits) {
  const int32_t vocab_size = static_cast<int32_t>(logits.size());
  for (const auto& [token, bias] : options.logit_bias) {
    if (token < 0 || token >= vocab_size) continue;
    float& logit = logits[token];
    // A NaN must stay one (it is reported), and a ban (-infinity) must stay a ban.
    const double biased = static_cast<double>(logit) + bias;
    logit = std::isfinite(biased) ? ToFiniteFloat(biased) : static_cast<float>(biased);
  }
  if (!HasPenalties(options)) return;
  CountTokens(PenaltyWindow(history, options.penalty_window), counts);
  for (const auto& [token, count] : counts) {
    if (token < 0 || token >= vocab_size) continue;
    logits[token] = Penalise(logits[token], count, options);
  }
}

}  // namespace tahmin
