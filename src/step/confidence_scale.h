// What a drafter's confidence has turned out to be worth: the acceptance probability of a draft
// token by the confidence that its drafter gave it, learnt from the steps so far (control/).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace tahmin {

struct ConfidenceScale {
  static constexpr int32_t kBins = 10;  // of equal width over [0, 1]
  // Acceptance in the middle of each bin; linear in between. As built, a confidence is taken as it
  // is.
  std::array<float, kBins> acceptance = {0.05f, 0.15f, 0.25f, 0.35f, 0.45f,
                                         0.55f, 0.65f, 0.75f, 0.85f, 0.95f};

  static int32_t BinOf(float confidence) {
    return std::clamp(static_cast<int32_t>(confidence * kBins), 0, kBins - 1);
  }
  float Of(float confidence) const {
    const float position = std::clamp(confidence * kBins - 0.5f, 0.0f, kBins - 1.0f);
    const int32_t low = std::min(static_cast<int32_t>(position), kBins - 2);
    const float part = position - static_cast<float>(low);
    return acceptance[low] + part * (acceptance[low + 1] - acceptance[low]);
  }
};

}  // namespace tahmin
