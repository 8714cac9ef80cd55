// How often a stored successor is what the target says next, learnt from every emitted token: by
// its rank, by the probability it was stored with, and by whether the token in front was the same
// then. All ranks are counted at each token, drafted or not, so nothing is censored. Old counts
// fade.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace tahmin {

class SuccessorAcceptance {
 public:
  static constexpr int32_t kRanks = 8;

  // In (0, 1).
  float Of(bool knows_pair, int32_t rank, float probability) const {
    const Count& count = counts_[IndexOf(knows_pair, rank, probability)];
    // Before anything is counted, the probability itself, discounted: it was another context.
    const float prior = (knows_pair ? 0.8f : 0.5f) * probability;
    return std::clamp((count.hits + kPriorWeight * prior) / (count.tests + kPriorWeight), 1e-4f,
                      0.9999f);
  }

  void Learn(bool knows_pair, int32_t rank, float probability, bool is_hit) {
    Count& count = counts_[IndexOf(knows_pair, rank, probability)];
    count.tests = count.tests * kMemory + 1;
    count.hits = count.hits * kMemory + (is_hit ? 1.0f : 0.0f);
  }

 private:
  static constexpr int32_t kBins = 10;
  static constexpr float kMemory = 1 - 1.0f / 512;
  static constexpr float kPriorWeight = 6;
  struct Count {
    float tests = 0, hits = 0;
  };

  static int32_t IndexOf(bool knows_pair, int32_t rank, float probability) {
    const int32_t bin = std::clamp(static_cast<int32_t>(probability * kBins), 0, kBins - 1);
    return ((knows_pair ? kRanks : 0) + rank) * kBins + bin;
  }

  std::array<Count, 2 * kRanks * kBins> counts_;
};

}  // namespace tahmin
