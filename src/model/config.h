// The shape of a model, read from GGUF metadata and checked. Unsupported architectures, rope
// scalings and features are refused by name (UNIMPLEMENTED), missing or impossible values by key
// (INVALID_ARGUMENT). A key of the architecture that this reader does not know is refused too:
// ignoring it could change the text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gguf/gguf_file.h"
#include "kernels/kernels.h"

namespace tahmin {

enum class Architecture { kLlama, kQwen2, kQwen3 };
enum class RopeScaling {
  kNone,
  kLinear,
  kYarn
};  // llama3 scaling comes as the tensor rope_freqs.weight

struct ModelConfig {
  Architecture architecture = Architecture::kLlama;
  std::string architecture_name;
  int32_t num_layers = 0;
  int32_t embedding_length = 0;
  int32_t feed_forward_length = 0;
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;  // attention.key_length, else embedding_length / num_heads
  int32_t rotary_dimensions = 0;
  int32_t vocab_size = 0;  // rows of the output matrix
  int64_t trained_context = 0;
  float rms_epsilon = 1e-5f;
  kernels::RopeStyle rope_style = kernels::RopeStyle::kInterleaved;
  float rope_base = 10000.0f;
  RopeScaling rope_scaling = RopeScaling::kNone;
  float rope_scale_factor = 1.0f;     // positions are divided by it (yarn: where it interpolates)
  int64_t rope_original_context = 0;  // yarn: the context before it was stretched
  // Multiplies cosines and sines: rope.scaling.attn_factor, with yarn times 1 + 0.1 ln(factor).
  float yarn_attention_factor = 1.0f;
  float yarn_beta_fast = 32.0f, yarn_beta_slow = 1.0f, yarn_extrapolation_factor = 1.0f;
  int64_t sliding_window = 0;  // last positions that a token sees, its own included; 0: all
  bool has_qk_norm = false;    // qwen3

  int32_t query_width() const { return num_heads * head_dim; }
  int32_t kv_width() const { return num_kv_heads * head_dim; }
};

absl::StatusOr<ModelConfig> ReadModelConfig(const GgufFile& file);

}  // namespace tahmin
