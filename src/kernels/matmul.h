// y = W x for packed weights: the pass that streams all weights once, for 1 row or 512.
// Batch-invariant: the bits of out[row] depend on W and on that row's activations alone. Integer
// dot products are exact inside an activation block (or weight block, where that is smaller);
// float32 partial sums are added in ascending block order in one lane; a residual row's result is
// added after its base row's. Threads split groups of weight rows, never a sum.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "kernels/activation_rows.h"
#include "kernels/packed_matrix.h"

namespace tahmin::kernels {

// One matrix applied to all rows. Several jobs share one parallel region (query, key and value).
struct MatMulJob {
  const PackedMatrix* matrix = nullptr;
  const float* bias = nullptr;  // [matrix->rows()] or null; added last
  float* out = nullptr;         // out[row * out_stride + i], i in [0, matrix->rows())
  int64_t out_stride = 0;
};

// All matrices have input.columns() columns. `input` is sealed where a job's layout is an integer
// one.
void MatMul(std::span<const MatMulJob> jobs, const ActivationRows& input, ThreadPool& pool);

}  // namespace tahmin::kernels
