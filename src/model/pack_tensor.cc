#include "model/pack_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "gguf/dequantize.h"
#include "model/four_bit_blocks.h"

namespace tahmin {
namespace {

std::span<const uint8_t> RowBlocks(const GgufTensor& tensor, int64_t row) {
  TAHMIN_CHECK(row >= 0 && row < tensor.rows());
  const size_t row_bytes = tensor.bytes.size() / static_cast<size_t>(tensor.rows());
  return tensor.bytes.subspan(static_cast<size_t>(row) * row_bytes, row_bytes);
}

absl::StatusOr<kernels::PackedMatrix> NameTensor(absl::StatusOr<kernels::PackedMatrix> packed,
                                                 const GgufTensor& tensor) {
  if (packed.ok()) return packed;
  return absl::Status(packed.status().code(), fmt::format("tensor {}: {}", tensor.name,
                                                          std::string(packed.status().message())));
}

// Packs num_rows rows; row i of the result is the tensor's row_of(i).
template <typename RowOf>
absl::StatusOr<kernels::PackedMatrix> PackSomeRows(const GgufTensor& tensor, int64_t num_rows,
                                                   bool to_four_bits,
                                                   const kernels::SlicedPool& pool, RowOf row_of) {
  const TensorType type = PackedType(tensor, to_four_bits);
  const auto write_row = [&](int64_t index, std::span<uint8_t> blocks) {
    const std::span<const uint8_t> stored = RowBlocks(tensor, row_of(index));
    if (type == tensor.type) {
      std::copy(stored.begin(), stored.end(), blocks.begin());
      return;
    }
    thread_local std::vector<float> values;
    values.resize(static_cast<size_t>(tensor.columns()));
    TAHMIN_CHECK(DequantizeRow(tensor.type, stored, values).ok());
    QuantizeFourBits(type, values, blocks);
  };
  return NameTensor(
      kernels::PackedMatrix::PackRows(type, num_rows, tensor.columns(), write_row, pool), tensor);
}

}  // namespace

TensorType PackedType(const GgufTensor& tensor, bool to_four_bits) {
  return to_four_bits ? FourBitType(tensor.type, tensor.columns()) : tensor.type;
}

size_t PackedTensorBytes(const GgufTensor& tensor, int64_t num_rows, bool to_four_bits) {
  return kernels::PackedMatrix::PackedBytes(PackedType(tensor, to_four_bits), num_rows,
                                            tensor.columns());
}

absl::StatusOr<kernels::PackedMatrix> PackTensor(const GgufTensor& tensor, bool to_four_bits,
                                                 const kernels::SlicedPool& pool) {
  if (PackedType(tensor, to_four_bits) == tensor.type) {
    return NameTensor(kernels::PackedMatrix::Pack(tensor.type, tensor.rows(), tensor.columns(),
                                                  tensor.bytes, pool),
                      tensor);
  }
  return PackSomeRows(tensor, tensor.rows(), to_four_bits, pool, [](int64_t row) { return row; });
}

absl::StatusOr<kernels::PackedMatrix> PackTensorRows(const GgufTensor& tensor,
                                                     std::span<const int32_t> rows,
                                                     bool to_four_bits,
                                                     const kernels::SlicedPool& pool) {
  const auto row_of = [rows](int64_t index) { return int64_t{rows[static_cast<size_t>(index)]}; };
  kernels::SlicedPool index_pool = pool;
  if (pool.on_done) {
    index_pool.on_done = [&](int64_t begin, int64_t end) {
      pool.on_done(row_of(begin), row_of(end - 1) + 1);
    };
  }
  return PackSomeRows(tensor, static_cast<int64_t>(rows.size()), to_four_bits, index_pool, row_of);
}

void ReadTensorRow(const GgufTensor& tensor, int64_t row, std::span<float> out) {
  TAHMIN_CHECK(DequantizeRow(tensor.type, RowBlocks(tensor, row), out).ok());
}

}  // namespace tahmin
