#include "model/attention.h"

#include <algorithm>

#include "kernels/kernels.h"
#include "kernels/matmul.h"
#include "step/kv_layout.h"

namespace tahmin {
namespace {

void ProjectQueriesKeysValues(const ForwardPass& pass, const LayerWeights& layer) {
  ForwardScratch::State& scratch = pass.scratch;
  const ModelConfig& config = pass.weights.config;
  const kernels::MatMulJob jobs[] = {
      {&layer.query.matrix, layer.query.bias_or_null(), scratch.query_row(0), scratch.query_width},
      {&layer.key.matrix, layer.key.bias_or_null(), scratch.key_row(0), scratch.kv_width},
      {&layer.value.matrix, layer.value.bias_or_null(), scratch.value_row(0), scratch.kv_width},
  };
  FillAndMultiply(pass, PassStage::kQueryKeyValue, config.embedding_length,
                  pass.weights.formats.attention_input, jobs, [&](int32_t row, float* out) {
                    kernels::RmsNorm(scratch.hidden_row(row), layer.attention_norm.data(),
                                     config.rms_epsilon, config.embedding_length, out);
                  });
}

void NormHeads(float* heads, int32_t num_heads, std::span<const float> weight, float epsilon) {
  const int64_t head_dim = static_cast<int64_t>(weight.size());
  for (int32_t head = 0; head < num_heads; ++head) {
    float* values = heads + head * head_dim;
    kernels::RmsNorm(values, weight.data(), epsilon, head_dim, values);
  }
}

// Writes one row's values, [num_kv_heads, head_dim], into its slot, in cache precision.
void StoreValues(const float* heads, const KvShape& shape, int64_t slot, const KvView& view) {
  const int64_t head_dim = shape.head_dim;
  for (int32_t head = 0; head < shape.num_kv_heads; ++head) {
    const float* in = heads + head * head_dim;
    const int64_t offset = ValueOffset(head, slot, view.num_slots, head_dim);
    if (shape.type == KvType::kF16) {
      kernels::FloatToHalfRow(in, head_dim, static_cast<uint16_t*>(view.values) + offset);
    } else {
      std::copy_n(in, head_dim, static_cast<float*>(view.values) + offset);
    }
  }
}

// The same for one head of its keys, [head_dim]: one element of each dimension's run.
void StoreKey(const float* in, const KvShape& shape, int32_t head, int64_t slot,
              const KvView& view) {
  constexpr int64_t kPart = 64;
  const int64_t head_dim = shape.head_dim;
  const int64_t offset = KeyOffset(head, slot, view.num_slots, head_dim);
  if (shape.type == KvType::kF32) {
    float* out = static_cast<float*>(view.keys) + offset;
    for (int64_t d = 0; d < head_dim; ++d) out[d * kAttentionBlock] = in[d];
    return;
  }
  uint16_t* out = static_cast<uint16_t*>(view.keys) + offset;
  for (int64_t begin = 0; begin < head_dim; begin += kPart) {
    uint16_t halves[kPart];
    const int64_t count = std::min(kPart, head_dim - begin);
    kernels::FloatToHalfRow(in + begin, count, halves);
    for (int64_t i = 0; i < count; ++i) out[(begin + i) * kAttentionBlock] = halves[i];
  }
}

// Keys of all rows, a head on one thread: neighbouring rows share every cache line that they write.
void StoreKeys(const ForwardPass& pass, int32_t layer_index) {
  ForwardScratch::State& scratch = pass.scratch;
  const KvShape& shape = pass.cache.shape();
  const auto store_head = [&](int64_t head, int) {
    for (int32_t row = 0; row < scratch.num_rows; ++row) {
      const RowPlace& place = scratch.places[row];
      StoreKey(scratch.key_row(row) + head * shape.head_dim, shape, static_cast<int32_t>(head),
               place.slot, pass.cache.View(place.sequence, layer_index));
    }
  };
  constexpr int32_t kRowsWorthARegion = 4;
  if (scratch.num_rows >= kRowsWorthARegion) {
    pass.pool.ParallelFor(shape.num_kv_heads, store_head);
  } else {
    for (int32_t head = 0; head < shape.num_kv_heads; ++head) store_head(head, 0);
  }
}

void RotateAndStore(const ForwardPass& pass, const LayerWeights& layer, int32_t layer_index) {
  ForwardScratch::State& scratch = pass.scratch;
  const ModelConfig& config = pass.weights.config;
  ForEachRow(pass, scratch.query_width + 2 * scratch.kv_width, [&](int32_t row) {
    float* queries = scratch.query_row(row);
    float* keys = scratch.key_row(row);
    if (config.has_qk_norm) {
      NormHeads(queries, config.num_heads, layer.query_norm, config.rms_epsilon);
      NormHeads(keys, config.num_kv_heads, layer.key_norm, config.rms_epsilon);
    }
    const kernels::RopeTable table = {scratch.cosines_row(row), scratch.sines_row(row)};
    kernels::Rope(queries, config.num_heads, config.head_dim, config.rotary_dimensions,
                  config.rope_style, table);
    kernels::Rope(keys, config.num_kv_heads, config.head_dim, config.rotary_dimensions,
                  config.rope_style, table);
    const RowPlace& place = scratch.places[row];
    const KvView view = pass.cache.View(place.sequence, layer_index);
    StoreValues(scratch.value_row(row), pass.cache.shape(), place.slot, view);
  });
  StoreKeys(pass, layer_index);
}

// Moves the rows that want logits to the front. Nothing reads the others again: their keys and
// values are stored, and after the last layer only logits are left.
void KeepLogitRows(ForwardScratch::State& scratch) {
  int32_t num_kept = 0;
  for (int32_t row = 0; row < scratch.num_rows; ++row) {
    if (!scratch.places[row].wants_logits) continue;
    if (row != num_kept) {
      std::copy_n(scratch.hidden_row(row), scratch.embedding_length, scratch.hidden_row(num_kept));
      std::copy_n(scratch.query_row(row), scratch.query_width, scratch.query_row(num_kept));
      scratch.places[num_kept] = scratch.places[row];
      scratch.attention_rows[num_kept] = scratch.attention_rows[row];
    }
    ++num_kept;
  }
  scratch.num_rows = num_kept;
}

void Attend(const ForwardPass& pass, int32_t layer_index) {
  ForwardScratch::State& scratch = pass.scratch;
  for (int32_t row = 0; row < scratch.num_rows; ++row) {
    kernels::AttentionRow& attention = scratch.attention_rows[row];
    const KvView view = pass.cache.View(scratch.places[row].sequence, layer_index);
    attention.queries = scratch.query_row(row);
    attention.out = scratch.attended_row(row);
    attention.kv = {view.keys, view.values, view.num_slots,
                    pass.cache.shape().type == KvType::kF16};
  }
  kernels::Attention({scratch.attention_rows.data(), static_cast<size_t>(scratch.num_rows)},
                     MakeAttentionShape(pass.weights.config), scratch.attention.As<float>().data(),
                     pass.pool);
  scratch.profile.Lap(PassStage::kAttention);
}

void ProjectOutput(const ForwardPass& pass, const LayerWeights& layer) {
  ForwardScratch::State& scratch = pass.scratch;
  const LinearWeights& output = layer.attention_output;
  const kernels::MatMulJob jobs[] = {
      {&output.matrix, output.bias_or_null(), scratch.projected_row(0), scratch.embedding_length}};
  FillAndMultiply(pass, PassStage::kAttentionOutput, scratch.query_width,
                  pass.weights.formats.attention_output, jobs, [&](int32_t row, float* out) {
                    std::copy_n(scratch.attended_row(row), scratch.query_width, out);
                  });
}

}  // namespace

void AttentionBlock(const ForwardPass& pass, int32_t layer_index) {
  const LayerWeights& layer = pass.weights.layers[layer_index];
  ForwardScratch::State& scratch = pass.scratch;
  ProjectQueriesKeysValues(pass, layer);
  RotateAndStore(pass, layer, layer_index);
  scratch.profile.Lap(PassStage::kRopeAndStore);
  if (layer_index + 1 == pass.weights.config.num_layers) KeepLogitRows(scratch);
  if (scratch.num_rows == 0) return;
  Attend(pass, layer_index);
  ProjectOutput(pass, layer);
  ForEachRow(pass, scratch.embedding_length, [&](int32_t row) {
    kernels::Add(scratch.hidden_row(row), scratch.projected_row(row), scratch.embedding_length);
  });
  scratch.profile.Lap(PassStage::kResidualAdds);
}

}  // namespace tahmin
