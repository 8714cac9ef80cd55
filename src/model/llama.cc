// Llama and its relatives (Mistral with its sliding window, SmolLM2): pairs of neighbours rotate,
// since GGUF files hold query and key rows permuted that way.
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
    {"ffn_norm", &LayerWeights::feed_forward_norm, kEmbedding},
};

}  // namespace

const ArchitectureTraits& LlamaArchitecture() {
  static constexpr ArchitectureTraits kTraits = {
      .architecture = Architecture::kLlama,
      .name = "llama",
      .rope_style = kernels::RopeStyle::kInterleaved,
      .has_qk_norm = false,
      .has_sliding_window = true,
      .matrices = kMatrices,
      .vectors = kVectors,
  };
  return kTraits;
}

}  // namespace tahmin
