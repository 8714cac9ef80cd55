// Qwen2 and Qwen2.5: query, key and value have biases, halves of a head rotate.
#include "model/architecture.h"

namespace tahmin {
namespace {

using enum Dimension;

constexpr LayerMatrix kMatrices[] = {
    {"attn_q", &LayerWeights::query, kQueryWidth, kEmbedding, Bias::kRequired},
    {"attn_k", &LayerWeights::key, kKvWidth, kEmbedding, Bias::kRequired},
    {"attn_v", &LayerWeights::value, kKvWidth, kEmbedding, Bias::kRequired},
    {"attn_output", &LayerWeights::attention_output, kEmbedding, kQueryWidth, Bias::kOptional},
    {"ffn_gate", &LayerWeights::gate, kFeedForward, kEmbedding, Bias::kOptional},
    {"ffn_up", &LayerWeights::up, kFeedForward, kEmbedding, Bias::kOptional},
    {"ffn_down", &LayerWeights::down, kEmbedding, kFeedForward, Bias::kOptional},
};

constexpr LayerVector kVectors[] = {
    {"attn_norm", &LayerWeights::attention_norm, kEmbedding},
    {"ffn_norm", &LayerWeights::feed_forward_norm, kEmbedding},
};

}  // namespace

const ArchitectureTraits& Qwen2Architecture() {
  static constexpr ArchitectureTraits kTraits = {
      .architecture = Architecture::kQwen2,
      .name = "qwen2",
      .rope_style = kernels::RopeStyle::kNeox,
      .has_qk_norm = false,
      .has_sliding_window = false,
      .matrices = kMatrices,
      .vectors = kVectors,
  };
  return kTraits;
}

}  // namespace tahmin
