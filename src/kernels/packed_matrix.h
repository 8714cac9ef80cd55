// A weight matrix in the layout that the matmul kernels read. GGUF blocks are converted at load
// into few layouts, 16 weight rows interleaved so that every 32-bit lane of a register belongs to
// one row and no horizontal sum is needed. Each packed value stands for exactly the number that the
// GGUF block defines. The packed form takes at most 1.04 times the GGUF bytes (rare types excepted:
// Q2_K, Q3_K). Immutable after Pack; usable from any thread. docs/kernels.md draws the layouts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/aligned_buffer.h"
#include "base/tensor_type.h"
#include "kernels/sliced_pool.h"

namespace tahmin::kernels {

constexpr int64_t kRowGroup = 16;  // weight rows interleaved in one group

enum class PackedLayout : uint8_t {
  kQ4Super,  // Q4_K (and Q2_K, see packing.cc): nibbles, 8-bit scale and min per 32, f16 d and dmin
             // per 256
  kQ5Super,  // Q5_K: nibbles + bit plane
  kQ6Super,  // Q6_K, Q3_K: nibbles + 2-bit plane, int8 scale per 16, f16 d per 256
  kQ2Super,  // Q2_K: nibbles, scale and min per 16
  kQ4Block,  // Q4_0, Q4_1: nibbles, f16 d (and m) per 32
  kQ5Block,  // Q5_0, Q5_1
  kQ8Block,  // Q8_0
  kF16,
  kBF16,
  kF32,
};

std::string_view PackedLayoutName(PackedLayout layout);

// Smallest width in columns over which one activation scale must not reach beyond: columns of a
// matrix are a multiple of this (32 or 256; 1 for float layouts).
int64_t LayoutBlockColumns(PackedLayout layout);

class PackedMatrix {
 public:
  PackedMatrix() = default;

  // rows x columns elements of `type` in GGUF order (row after row). Rows need not be a multiple of
  // kRowGroup: the last group is padded with rows that stand for zero. INVALID_ARGUMENT when
  // columns is not a multiple of the type's block; UNIMPLEMENTED for a type that is no weight.
  static absl::StatusOr<PackedMatrix> Pack(TensorType type, int64_t rows, int64_t columns,
                                           std::span<const uint8_t> blocks, const SlicedPool& pool);

  // The same from rows that are made as they are packed: write_row puts the GGUF blocks of one row
  // where it is told, called once a row from any of the pool's threads.
  using WriteRow = std::function<void(int64_t row, std::span<uint8_t> blocks)>;
  static absl::StatusOr<PackedMatrix> PackRows(TensorType type, int64_t rows, int64_t columns,
                                               const WriteRow& write_row, const SlicedPool& pool);

  // What Pack will allocate, for the memory plan. 0 for a type that is no weight.
  static size_t PackedBytes(TensorType type, int64_t rows, int64_t columns);

  // Unpacks one row to float32 [columns]: exactly DequantizeRow of the GGUF blocks. Slow; for
  // tests.
  void UnpackRow(int64_t row, std::span<float> out) const;

  PackedLayout layout() const { return layout_; }
  TensorType source_type() const { return source_type_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t num_groups() const { return (rows_ + kRowGroup - 1) / kRowGroup; }
  size_t group_bytes() const { return group_bytes_; }
  size_t halves_bytes() const { return halves_bytes_; }  // f16 section in front of each group
  size_t packed_bytes() const { return buffer_.num_bytes(); }
  const uint8_t* group(int64_t index) const { return buffer_.data() + index * group_bytes_; }
  // Integer layouts read quantised activations, float layouts float32 ones.
  bool is_float() const { return layout_ >= PackedLayout::kF16; }
  // Layouts without stored minima: value = d * (quant - zero_point), times the scale of a super
  // layout.
  bool has_min() const { return has_min_; }
  int32_t zero_point() const { return zero_point_; }

 private:
  // Shapes and allocates; the groups are zero.
  static absl::StatusOr<PackedMatrix> Prepare(TensorType type, int64_t rows, int64_t columns);

  PackedLayout layout_ = PackedLayout::kF32;
  TensorType source_type_ = TensorType::kF32;
  bool has_min_ = false;
  int32_t zero_point_ = 0;
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  size_t halves_bytes_ = 0;
  size_t group_bytes_ = 0;
  AlignedBuffer buffer_;
};

}  // namespace tahmin::kernels
