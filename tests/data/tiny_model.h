// Tiny random models for tests: a complete GGUF (tokenizer included) whose weights come from a
// counter-based generator, so that every build and every machine writes the same bytes. The same
// seed gives the same weights whatever the tensor type asks to store them in. Padding tokens have
// logits near zero, control tokens half the spread of the others. An independent fp32 reference of
// the same files is tests/data/tiny_reference.py; tests/data/write_tiny_model writes them from a
// command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/tensor_type.h"

namespace tahmin {

struct TinyModelOptions {
  std::string architecture = "llama";  // "llama", "qwen2", "qwen3"
  int32_t num_layers = 2;
  int32_t embedding_length = 64;  // a multiple of the weight type's block
  int32_t feed_forward_length = 128;
  int32_t num_heads = 4;
  int32_t num_kv_heads = 2;
  int32_t head_dim = 16;     // written as attention.key_length when != embedding / heads
  int32_t vocab_size = 320;  // >= 300: 4 control, 256 byte and 36 merged tokens, then padding
  int32_t context_length = 512;
  TensorType weight_type = TensorType::kQ8_0;  // matrices; norms and biases are F32
  TensorType embedding_type = TensorType::kF32;
  bool tied_embedding = true;  // no output.weight
  bool qkv_bias = false;       // qwen2 always has them
  int32_t sliding_window = 0;  // > 0: llama.attention.sliding_window (Mistral)
  std::string rope_scaling;    // "", "linear", "yarn"
  float rope_scale_factor = 4.0f;
  bool rope_freqs = false;   // llama3 scaling: rope_freqs.weight
  float logit_scale = 8.0f;  // about the largest logit (3 standard deviations): larger is sharper
  uint64_t seed = 1;
};

// Ids of the control tokens in every tiny vocabulary.
struct TinyVocabulary {
  static constexpr int32_t kBegin = 0;      // "<|begin|>"
  static constexpr int32_t kEnd = 1;        // "<|endoftext|>", end of text
  static constexpr int32_t kTurnStart = 2;  // "<|im_start|>"
  static constexpr int32_t kTurnEnd = 3;    // "<|im_end|>", end of turn
  static constexpr int32_t kFirstByte = 4;  // 256 byte tokens follow, then merges, then padding
};

// Impossible options (a width that is no multiple of a block, ...) are a broken invariant.
std::vector<uint8_t> TinyModelBytes(const TinyModelOptions& options);
// Writes it to `path` (replaced atomically).
void WriteTinyModel(const TinyModelOptions& options, const std::string& path);

}  // namespace tahmin
