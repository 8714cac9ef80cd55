// One int8 activation row, as the integer matmul kernels read it. Plain pointers into
// ActivationRows; a plain header, because the per-ISA translation units include it.
#pragma once

#include <cstdint>

namespace tahmin::kernels {

// Pointers are 64-byte aligned (sums32 and scaled_sums 4-byte aligned).
struct QuantizedRow {
  const int8_t* values;      // [columns], in [-127, 127]
  const float* scales;       // [columns / block]
  const int16_t* sums16;     // [columns / 16], sum of the values of each 16 columns
  const int16_t* sums32;     // [columns / 32], sum of the values of each 32 columns
  const float* scaled_sums;  // [columns / 32], scale * sums32, rounded once
  int32_t base_row;          // output row that the result belongs to
  bool is_residual;          // added to base_row's result after that is complete
};

}  // namespace tahmin::kernels
