// The float layouts (F16, BF16, F32) of matmul.h: one group of weight rows times some float32 rows.
#pragma once

#include <cstdint>

#include "kernels/packed_matrix.h"

namespace tahmin::kernels {

struct FloatGroupPass {
  PackedLayout layout;
  const uint8_t* group;  // [columns][16] elements
  int64_t columns;
  const float* const* rows;  // [num_rows] pointers to [columns] float32
  int32_t num_rows;
  float* out;  // [num_rows][16], 64-byte aligned, written
};

// Four partial sums per lane over columns k, k + 4, ..., added up in a fixed order.
void FloatMatMulGroup(const FloatGroupPass& pass);

}  // namespace tahmin::kernels
