#include "kernels/reference/matmul_reference.h"

#include <cmath>

namespace tahmin::kernels::reference {

std::vector<double> ActivationValues(const ActivationRows& input, int32_t row, bool is_float) {
  const size_t columns = static_cast<size_t>(input.columns());
  std::vector<double> values(columns, 0.0);
  if (is_float) {
    values.assign(input.row(row), input.row(row) + columns);
    return values;
  }
  const size_t block = static_cast<size_t>(input.format().block);
  for (const QuantizedRow& quantized : input.quantized_rows()) {
    if (quantized.base_row != row) continue;
    for (size_t k = 0; k < columns; ++k) {
      values[k] += static_cast<double>(quantized.scales[k / block]) *
                   static_cast<double>(quantized.values[k]);
    }
  }
  return values;
}

MatMulResult MatMul(const PackedMatrix& matrix, const float* bias, const ActivationRows& input) {
  const size_t rows = static_cast<size_t>(matrix.rows());
  const size_t columns = static_cast<size_t>(matrix.columns());
  const size_t num_rows = static_cast<size_t>(input.num_rows());
  std::vector<std::vector<double>> activations;
  for (size_t i = 0; i < num_rows; ++i) {
    activations.push_back(ActivationValues(input, static_cast<int32_t>(i), matrix.is_float()));
  }
  MatMulResult result;
  result.values.resize(num_rows * rows);
  result.magnitudes.resize(num_rows * rows);
  std::vector<float> weights(columns);
  for (size_t w = 0; w < rows; ++w) {
    matrix.UnpackRow(static_cast<int64_t>(w), weights);
    for (size_t i = 0; i < num_rows; ++i) {
      double sum = 0.0;
      double magnitude = 0.0;
      for (size_t k = 0; k < columns; ++k) {
        const double product = static_cast<double>(weights[k]) * activations[i][k];
        sum += product;
        magnitude += std::fabs(product);
      }
      result.values[i * rows + w] = sum + (bias == nullptr ? 0.0 : static_cast<double>(bias[w]));
      result.magnitudes[i * rows + w] = magnitude;
    }
  }
  return result;
}

}  // namespace tahmin::kernels::reference
