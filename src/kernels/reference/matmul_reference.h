// The oracle of matmul.h: float64, element by element, no packing order, no integers.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/activation_rows.h"
#include "kernels/packed_matrix.h"

namespace tahmin::kernels::reference {

// One row of the input as a kernel sees it: dequantised, its residual row added; the float row
// itself for a float layout.
std::vector<double> ActivationValues(const ActivationRows& input, int32_t row, bool is_float);

struct MatMulResult {
  std::vector<double> values;      // [num_rows][matrix.rows()]
  std::vector<double> magnitudes;  // the same with |w| * |x|: what an error is relative to
};

// bias: [matrix.rows()] or null.
MatMulResult MatMul(const PackedMatrix& matrix, const float* bias, const ActivationRows& input);

}  // namespace tahmin::kernels::reference
