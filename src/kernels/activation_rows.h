// The input of a matmul: float32 rows, and their int8 form for integer layouts. Each row is
// quantised from its own values alone, in blocks of `format.block` columns: scale = max|x| / 127,
// value = round-to-nearest-even(x / scale). A row whose peak exceeds residual_threshold times its
// root mean square also gets a residual row, the quantised rounding error: it goes through the same
// matmul as a further row, and its result is added once to the base row's (design: a per-row
// decision, so the bits of a row never depend on its neighbours). The same bits on every CPU. A
// block that holds an infinity or a NaN gets the scale NaN (and zero values), so that it surfaces
// in the result; a block whose peak is below 2^-100 counts as zero. Scratch, reused from pass to
// pass: sized at Create, never grows. Rows may be set from different threads; Seal is called once
// between setting and use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/aligned_buffer.h"
#include "kernels/quantized_row.h"

namespace tahmin::kernels {

struct ActivationFormat {
  int32_t block = 32;               // 32, 64, 128 or 256; divides the columns
  float residual_threshold = 0.0f;  // 0: never a residual row
};

class ActivationRows {
 public:
  static absl::StatusOr<ActivationRows> Create(int32_t max_rows, int64_t max_columns);
  static size_t ScratchBytes(int32_t max_rows, int64_t max_columns);

  // Starts a new set of rows. columns <= max_columns; the format's block divides columns.
  void Begin(int32_t num_rows, int64_t columns, const ActivationFormat& format);

  float* row(int32_t index);  // [columns] float32, 64-byte aligned; the caller fills it
  const float* row(int32_t index) const;
  void Quantize(int32_t index);  // after row(index) is filled; thread-safe for distinct rows
  void Seal();                   // builds quantized_rows(); call when all rows are quantised

  int32_t num_rows() const { return num_rows_; }
  int64_t columns() const { return columns_; }
  const ActivationFormat& format() const { return format_; }
  // Base rows in order, each directly followed by its residual row, if any.
  std::span<const QuantizedRow> quantized_rows() const { return quantized_rows_; }
  int32_t num_residual_rows() const {
    return static_cast<int32_t>(quantized_rows_.size()) - num_rows_;
  }

 private:
  // Writes quantised row `slot` (2 * index, or 2 * index + 1 for the residual).
  void QuantizeInto(int32_t slot, const float* x, float* error);
  QuantizedRow SlotView(int32_t slot) const;

  int32_t max_rows_ = 0, num_rows_ = 0;
  int64_t max_columns_ = 0, columns_ = 0;
  ActivationFormat format_;
  int64_t float_stride_ = 0, value_stride_ = 0, block_stride_ = 0;  // of this set, in elements
  AlignedBuffer floats_, values_, scales_, sums16_, sums32_, scaled_sums_;
  std::vector<uint8_t> has_residual_;
  std::vector<QuantizedRow> quantized_rows_;
};

}  // namespace tahmin::kernels
