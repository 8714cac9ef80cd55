#include "draft/draft_choices.h"

#include <algorithm>
#include <cmath>

#include "base/status_macros.h"
#include "sampling/keyed_draw.h"

namespace tahmin {
namespace {

// A greedy pick without its temperature: the best few candidates carry nearly all of the mass.
SamplingOptions RankingOptions(SamplingOptions sampling) {
  if (sampling.temperature > 0) return sampling;
  sampling.temperature = 1;
  sampling.top_k = 64;
  sampling.top_p = 1;
  sampling.min_p = 0;
  return sampling;
}

}  // namespace

DraftChoices::DraftChoices(const SamplingOptions& sampling)
    : score_scale_(sampling.temperature > 0 ? sampling.temperature : 1),
      is_greedy_(sampling.temperature == 0),
      builder_(RankingOptions(sampling)) {}

void DraftChoices::AddNoise(std::span<const Candidate> candidates, uint64_t seed,
                            int64_t position) {
  noise_.assign(candidates.size(), 0.0f);
  // One candidate is drawn without noise.
  if (!is_greedy_ && candidates.size() > 1) GumbelNoise(candidates, seed, position, noise_);
  scored_.clear();
  for (size_t i = 0; i < candidates.size(); ++i) {
    scored_.push_back({candidates[i].logit + noise_[i], candidates[i].token});
  }
}

absl::StatusOr<std::span<const DraftChoice>> DraftChoices::Rank(std::span<const float> logits,
                                                                std::span<const int32_t> history,
                                                                uint64_t seed,
                                                                int32_t valid_vocab_size,
                                                                int32_t most) {
  TAHMIN_ASSIGN_OR_RETURN(const std::span<const Candidate> candidates,
                          builder_.Build(logits, history, valid_vocab_size));
  AddNoise(candidates, seed, static_cast<int64_t>(history.size()));
  const auto kept = scored_.begin() + std::min<size_t>(scored_.size(), std::max(most, 1));
  std::partial_sort(scored_.begin(), kept, scored_.end(), [](const Scored& a, const Scored& b) {
    return a.score > b.score || (a.score == b.score && a.token < b.token);
  });
  double total = 0;
  const auto weight = [this](const Scored& scored) {
    return std::exp(static_cast<double>(score_scale_) * (scored.score - scored_.front().score));
  };
  for (const Scored& scored : scored_) total += weight(scored);
  choices_.clear();
  for (auto scored = scored_.begin(); scored != kept; ++scored) {
    // Never 0: an unlikely choice is a choice.
    const auto confidence = static_cast<float>(std::max(weight(*scored) / total, 1e-12));
    choices_.push_back({scored->token, confidence});
  }
  return std::span<const DraftChoice>(choices_);
}

}  // namespace tahmin
