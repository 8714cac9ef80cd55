// What one architecture consists of: its switches and the tensors of one layer, as plain tables. A
// new architecture of the same block shape (norm, attention, norm, gated feed-forward) is one file
// with its tables plus one row in Architectures(). Constant; usable from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/packed_matrix.h"
#include "model/config.h"

namespace tahmin {

// y = matrix x + bias.
struct LinearWeights {
  kernels::PackedMatrix matrix;  // [outputs, inputs]
  std::vector<float> bias;       // [outputs], or empty

  const float* bias_or_null() const { return bias.empty() ? nullptr : bias.data(); }
};

struct LayerWeights {
  std::vector<float> attention_norm;     // [embedding_length]
  LinearWeights query, key, value;       // [query_width | kv_width, embedding_length]
  std::vector<float> query_norm;         // [head_dim], with has_qk_norm
  std::vector<float> key_norm;           // [head_dim], with has_qk_norm
  LinearWeights attention_output;        // [embedding_length, query_width]
  std::vector<float> feed_forward_norm;  // [embedding_length]
  LinearWeights gate, up;                // [feed_forward_length, embedding_length]
  LinearWeights down;                    // [embedding_length, feed_forward_length]
};

enum class Dimension { kEmbedding, kQueryWidth, kKvWidth, kFeedForward, kHead };
int64_t DimensionSize(Dimension dimension, const ModelConfig& config);

enum class Bias { kOptional, kRequired };

// Tensor "blk.<layer>.<name>.weight", and "blk.<layer>.<name>.bias" beside it.
struct LayerMatrix {
  std::string_view name;
  LinearWeights LayerWeights::*member;
  Dimension rows;
  Dimension columns;
  Bias bias;
};

// Tensor "blk.<layer>.<name>.weight".
struct LayerVector {
  std::string_view name;
  std::vector<float> LayerWeights::*member;
  Dimension size;
};

struct ArchitectureTraits {
  Architecture architecture;
  std::string_view name;  // general.architecture, and the prefix of its metadata keys
  kernels::RopeStyle rope_style;
  bool has_qk_norm;
  bool has_sliding_window;  // attention.sliding_window holds for every layer
  std::span<const LayerMatrix> matrices;
  std::span<const LayerVector> vectors;
};

const ArchitectureTraits& LlamaArchitecture();
const ArchitectureTraits& Qwen2Architecture();
const ArchitectureTraits& Qwen3Architecture();

// All of them, in the order of enum Architecture.
std::span<const ArchitectureTraits* const> Architectures();
const ArchitectureTraits* FindArchitecture(std::string_view name);  // nullptr: unknown
const ArchitectureTraits& TraitsOf(Architecture architecture);

}  // namespace tahmin
