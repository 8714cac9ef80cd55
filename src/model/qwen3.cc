// Qwen3 (dense): every query and key head is normalised before it rotates.
#include "model/architecture.h"

namespace tahmin {
namespace {

using enum Dimension;

constexpr LayerMatrix kMatrices[] = {
    {"attn_q", &LayerWeights::query, kQueryWidth, kEmbedding, Bias::kOptional},
    {"attn_k", &LayerWeights::key, kKvWidth, kEmbedding, Bias::kOptional},
    {"attn_v", &LayerWeights::value, kKvWidth, kEmbedding, Bias::kOptional},
    {"attn_output", &LayerWeights::attention_output, kEmbedding, kQueryWidth, Bias::kOptional},
    {"ffn_gate", &LayerWeights::gate, kFeedForward, kEmbedding, Bias::kOptional},
    {"ffn_up", &LayerWeights::up, kFeedForward, kEmbedding, Bias::kOptional},
    {"ffn_down", &LayerWeights::down, kEmbedding, kFeedForward, Bias::kOptional},
};

constexpr LayerVector kVectors[] = {
    {"attn_norm", &LayerWeights::attention_norm, kEmbedding},
    {"attn_q_norm", &LayerWeights::query_norm, kHead},
    {"attn_k_norm", &LayerWeights::key_norm, kHead},
    {"ffn_norm", &LayerWeights::feed_forward_norm, kEmbedding},
};

}  // namespace

const ArchitectureTraits& Qwen3Architecture() {
  static constexpr ArchitectureTraits kTraits = {
      .architecture = Architecture::kQwen3,
      .name = "qwen3",
      .rope_style = kernels::RopeStyle::kNeox,
      .has_qk_norm = true,
      .has_sliding_window = false,
      .matrices = kMatrices,
      .vectors = kVectors,
  };
  return kTraits;
}

}  // namespace tahmin
