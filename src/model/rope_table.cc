#include "model/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace tahmin {
namespace {

// The pair index at which a frequency makes `rotations` turns over the original context.
double CorrectionPair(const ModelConfig& config, double rotations) {
  const double base = config.rope_base;
  const double context = static_cast<double>(config.rope_original_context);
  return config.rotary_dimensions * std::log(context / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(base));
}

// Weights of the unscaled angle: 1 for fast pairs (they keep their resolution), 0 for slow ones
// (they are interpolated), a ramp between; section 3.2 of the YaRN paper with its bounds rounded
// outwards.
std::vector<double> YarnExtrapolation(const ModelConfig& config) {
  const double low = std::max(0.0, std::floor(CorrectionPair(config, config.yarn_beta_fast)));
  const double high = std::min<double>(config.rotary_dimensions - 1,
                                       std::ceil(CorrectionPair(config, config.yarn_beta_slow)));
  std::vector<double> weights(config.rotary_dimensions / 2);
  for (size_t i = 0; i < weights.size(); ++i) {
    const double ramp = (static_cast<double>(i) - low) / std::max(0.001, high - low);
    weights[i] = (1.0 - std::clamp(ramp, 0.0, 1.0)) * config.yarn_extrapolation_factor;
  }
  return weights;
}

}  // namespace

RopeFrequencies::RopeFrequencies(const ModelConfig& config,
                                 std::span<const float> frequency_factors) {
  const int32_t num_pairs = config.rotary_dimensions / 2;
  TAHMIN_CHECK(frequency_factors.empty() ||
               static_cast<int32_t>(frequency_factors.size()) == num_pairs);
  magnitude_ = config.yarn_attention_factor;
  angles_.resize(num_pairs);
  for (int32_t i = 0; i < num_pairs; ++i) {
    angles_[i] = std::pow(static_cast<double>(config.rope_base),
                          -2.0 * i / static_cast<double>(config.rotary_dimensions));
    if (!frequency_factors.empty()) angles_[i] /= frequency_factors[i];
  }
  const double scale = 1.0 / config.rope_scale_factor;
  if (config.rope_scaling == RopeScaling::kLinear) {
    for (double& angle : angles_) angle *= scale;
  } else if (config.rope_scaling == RopeScaling::kYarn) {
    const std::vector<double> weights = YarnExtrapolation(config);
    for (int32_t i = 0; i < num_pairs; ++i) {
      angles_[i] *= scale * (1.0 - weights[i]) + weights[i];
    }
  }
}

void RopeFrequencies::Fill(int64_t position, float* cosines, float* sines) const {
  for (size_t i = 0; i < angles_.size(); ++i) {
    const double angle = static_cast<double>(position) * angles_[i];
    cosines[i] = static_cast<float>(std::cos(angle) * magnitude_);
    sines[i] = static_cast<float>(std::sin(angle) * magnitude_);
  }
}

}  // namespace tahmin
