// From a tensor of the file to the packed matrix that the kernels read: as it is stored, or
// quantised again to 4 bits on the way (weights of a draft model). The pool hears which rows of the
// tensor are not read again.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "gguf/gguf_file.h"
#include "kernels/packed_matrix.h"
#include "kernels/sliced_pool.h"

namespace tahmin {

// The type that is packed: the stored one, or its FourBitType.
TensorType PackedType(const GgufTensor& tensor, bool to_four_bits);

size_t PackedTensorBytes(const GgufTensor& tensor, int64_t num_rows, bool to_four_bits);

// The whole tensor. Errors name it.
absl::StatusOr<kernels::PackedMatrix> PackTensor(const GgufTensor& tensor, bool to_four_bits,
                                                 const kernels::SlicedPool& pool);

// Some of its rows, in the order given; each in [0, tensor.rows()). Ascending where the pool is
// sliced.
absl::StatusOr<kernels::PackedMatrix> PackTensorRows(const GgufTensor& tensor,
                                                     std::span<const int32_t> rows,
                                                     bool to_four_bits,
                                                     const kernels::SlicedPool& pool);

// Dequantises one row into [tensor.columns()].
void ReadTensorRow(const GgufTensor& tensor, int64_t row, std::span<float> out);

}  // namespace tahmin
