// All weights of one model: matrices packed for the kernels, norms and biases in float32, embedding
// rows left in the mapped file. Every tensor of the file is used or refused by name. Immutable
// after loading.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "gguf/gguf_file.h"
#include "model/activation_formats.h"
#include "model/architecture.h"
#include "model/coarse_head.h"
#include "model/config.h"
#include "model/frequent_head.h"
#include "model/model.h"
#include "model/rope_table.h"
#include "model/weight_approximation.h"

namespace tahmin {

struct ModelWeights {
  std::shared_ptr<const GgufFile> file;
  ModelConfig config;
  ActivationFormats formats;
  const GgufTensor* embedding = nullptr;  // [vocab_size, embedding_length], inside the file
  std::vector<LayerWeights> layers;
  std::vector<float> output_norm;  // [embedding_length]
  LinearWeights output;  // [vocab_size, embedding_length]; no matrix with an approximate head
  std::vector<float> rope_factors;  // [rotary_dimensions / 2], or empty
  RopeFrequencies rope;
  WeightFigures figures;
  HeadShape head;
  std::optional<FrequentHead> frequent_head;  // with head.kind kFrequent
  std::optional<CoarseHead> coarse_head;      // with head.kind kCoarse

  // Dequantises the embedding of `token` into [embedding_length].
  void ReadEmbedding(int32_t token, float* out) const;
};

absl::StatusOr<std::unique_ptr<ModelWeights>> LoadWeights(std::shared_ptr<const GgufFile> file,
                                                          const ModelLoadOptions& options,
                                                          ThreadPool& pool);

// Bytes that LoadWeights allocates for matrices and vectors.
absl::StatusOr<size_t> PlannedWeightBytes(const GgufFile& file,
                                          const WeightApproximation& approximation);

}  // namespace tahmin
