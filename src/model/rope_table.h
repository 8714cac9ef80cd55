// Cosines and sines of rotary position embeddings (Su et al., RoFormer, arXiv 2104.09864), with
// linear scaling, YaRN (Peng et al., arXiv 2309.00071, as GGUF files parametrise it) and
// per-frequency factors (rope_freqs.weight: Llama 3 scaling). Frequencies and angles are computed
// in double, once per row of a pass: a table depends on the position alone, whatever the batch.
// Immutable; usable from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/config.h"

namespace tahmin {

class RopeFrequencies {
 public:
  RopeFrequencies() = default;
  // frequency_factors: [rotary_dimensions / 2], each divides its frequency; empty: none.
  RopeFrequencies(const ModelConfig& config, std::span<const float> frequency_factors);

  // Angle per position of each pair, [rotary_dimensions / 2].
  std::span<const double> angles() const { return angles_; }

  // Writes the tables of one position, [rotary_dimensions / 2] each.
  void Fill(int64_t position, float* cosines, float* sines) const;

 private:
  std::vector<double> angles_;
  double magnitude_ = 1.0;
};

}  // namespace tahmin
