// The memory of one Forward pass, and what its blocks pass to one another. Everything is sized at
// CreateScratch; a pass allocates nothing. One driver at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/aligned_buffer.h"
#include "base/thread_pool.h"
#include "kernels/activation_rows.h"
#include "kernels/kernels.h"
#include "kernels/matmul.h"
#include "kv/kv_cache.h"
#include "model/config.h"
#include "model/model.h"
#include "model/pass_profile.h"
#include "model/weights.h"
#include "step/token_batch.h"

namespace tahmin {

// Where one row stands: fixed for all layers.
struct RowPlace {
  int32_t sequence = 0;
  int64_t position = 0;  // logical: committed length + depth
  int64_t slot = 0;      // of its key and value
  bool wants_logits = false;
};

struct ForwardScratch::State {
  static absl::StatusOr<std::unique_ptr<State>> Create(const ModelWeights& weights,
                                                       int32_t max_rows, int32_t max_logit_rows,
                                                       int32_t num_threads);

  int32_t max_rows = 0, max_logit_rows = 0, num_threads = 0;
  int64_t embedding_length = 0, query_width = 0, kv_width = 0, feed_forward_length = 0;
  int64_t vocab_size = 0, num_pairs = 0;

  kernels::ActivationRows input;  // of the matmul that comes next
  AlignedBuffer hidden;           // [max_rows, embedding_length] the residual stream
  AlignedBuffer projected;        // [max_rows, embedding_length] what a block adds to it
  AlignedBuffer queries;          // [max_rows, query_width]
  AlignedBuffer keys, values;     // [max_rows, kv_width]
  AlignedBuffer attended;         // [max_rows, query_width] what attention gives
  AlignedBuffer gate, up;         // [max_rows, feed_forward_length]
  AlignedBuffer cosines, sines;   // [max_rows, num_pairs]
  AlignedBuffer attention;        // AttentionScratchFloats for each thread
  AlignedBuffer tail_slots;       // ancestors of the rows: max_rows * (max_rows + 1) / 2
  AlignedBuffer logits;           // [max_logit_rows, vocab_size]
  FrequentScratch frequent;       // with a head cut to frequent tokens
  CoarseScratch coarse;           // with a coarse head
  std::vector<RowPlace> places;   // [max_rows]
  std::vector<kernels::AttentionRow> attention_rows;  // [max_rows]

  // Of the pass that runs or ran last.
  int32_t num_rows = 0;  // rows still computed (the last layer drops some)
  int32_t num_logits = 0;
  PassProfile profile;
  int64_t base_rows = 0, residual_rows = 0;

  float* hidden_row(int32_t row) { return Row(hidden, embedding_length, row); }
  float* projected_row(int32_t row) { return Row(projected, embedding_length, row); }
  float* query_row(int32_t row) { return Row(queries, query_width, row); }
  float* key_row(int32_t row) { return Row(keys, kv_width, row); }
  float* value_row(int32_t row) { return Row(values, kv_width, row); }
  float* attended_row(int32_t row) { return Row(attended, query_width, row); }
  float* gate_row(int32_t row) { return Row(gate, feed_forward_length, row); }
  float* up_row(int32_t row) { return Row(up, feed_forward_length, row); }
  float* cosines_row(int32_t row) { return Row(cosines, num_pairs, row); }
  float* sines_row(int32_t row) { return Row(sines, num_pairs, row); }
  float* logits_row(int32_t row) { return Row(logits, vocab_size, row); }

 private:
  static float* Row(AlignedBuffer& buffer, int64_t width, int32_t row) {
    return buffer.As<float>().data() + row * width;
  }
};

size_t ForwardScratchBytes(const ModelConfig& config, int32_t max_rows, int32_t max_logit_rows,
                           int32_t num_threads);
// What an approximate output head needs beside that. Tokens that a sequence adds are not known yet.
size_t HeadScratchBytes(const HeadShape& head, const ModelConfig& config, int32_t max_logit_rows,
                        int32_t num_threads);

kernels::AttentionShape MakeAttentionShape(const ModelConfig& config);

// One running pass, as the blocks see it.
struct ForwardPass {
  const ModelWeights& weights;
  KvCache& cache;
  ForwardScratch::State& scratch;
  ThreadPool& pool;
};

// Runs body(row) for each row still computed: over the threads when there is work for them (rows
// are independent, so it never changes a bit). floats_per_row: how much one row moves.
template <typename Body>
void ForEachRow(const ForwardPass& pass, int64_t floats_per_row, Body&& body) {
  constexpr int64_t kWorthARegion = 4096;
  const int32_t num_rows = pass.scratch.num_rows;
  if (num_rows == 1 || num_rows * floats_per_row < kWorthARegion) {
    for (int32_t row = 0; row < num_rows; ++row) body(row);
    return;
  }
  pass.pool.ParallelFor(num_rows, [&](int64_t row, int) { body(static_cast<int32_t>(row)); });
}

// Fills scratch.input (fill(row, floats) writes one row), quantises it where a job needs that, and
// multiplies: the next matmul of the pass, which is `stage`. All matrices of the jobs have
// `columns` columns.
template <typename Fill>
void FillAndMultiply(const ForwardPass& pass, PassStage stage, int64_t columns,
                     const kernels::ActivationFormat& format,
                     std::span<const kernels::MatMulJob> jobs, Fill&& fill) {
  kernels::ActivationRows& input = pass.scratch.input;
  int32_t num_integer = 0;
  for (const kernels::MatMulJob& job : jobs) num_integer += job.matrix->is_float() ? 0 : 1;
  input.Begin(pass.scratch.num_rows, columns, format);
  ForEachRow(pass, columns, [&](int32_t row) {
    fill(row, input.row(row));
    if (num_integer > 0) input.Quantize(row);
  });
  if (num_integer > 0) {
    input.Seal();
    pass.scratch.residual_rows += int64_t{num_integer} * input.num_residual_rows();
  }
  pass.scratch.base_rows += static_cast<int64_t>(jobs.size()) * pass.scratch.num_rows;
  pass.scratch.profile.Lap(PassStage::kInputs);
  kernels::MatMul(jobs, input, pass.pool);
  pass.scratch.profile.Lap(stage);
}

}  // namespace tahmin
