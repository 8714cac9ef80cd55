// A matrix in two bits a number, for a first guess at W x: enough to find the few rows with the
// largest products, whose exact products are then worth computing. Row r stands for
// scale[r] * (2 * code - 3), code in 0 .. 3, the scale fitted by least squares. Immutable once
// filled; usable from any thread.
//
// Layout: bits 2 k of byte b of a row hold the code of column k * row_bytes + b, so that a shift
// and a mask give the codes of a run of columns. Rows are whole vectors of 32 bytes,
// and there is a multiple of four of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/aligned_buffer.h"
#include "base/thread_pool.h"

namespace tahmin {

class TwoBitRows {
 public:
  static constexpr int64_t kMostColumns = 1 << 20;  // so that sums of products fit 32 bits

  TwoBitRows() = default;
  // 1 <= columns <= kMostColumns.
  static absl::StatusOr<TwoBitRows> Create(int64_t rows, int64_t columns);
  static size_t Bytes(int64_t rows, int64_t columns);

  // Sets one row from its [columns] values; distinct rows may be set by different threads. A row
  // that is not finite gets the scale NaN.
  void SetRow(int64_t row, std::span<const float> values);

  // x as the products read it.
  struct Input {
    std::vector<int8_t> values;  // column c at c, zeros behind the last one
    float scale = 0;
    int32_t sum = 0;
  };
  Input MakeInput() const;  // sized, so that Quantize does not allocate
  // x: [columns]. A value that is not finite makes the scale NaN.
  void Quantize(std::span<const float> x, Input& input) const;

  // out[r] = row r times x for all rows, approximately.
  void Multiply(const Input& input, float* out, ThreadPool& pool) const;

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  size_t num_bytes() const { return Bytes(rows_, columns_); }

 private:
  int64_t rows_ = 0, columns_ = 0, row_bytes_ = 0;
  AlignedBuffer codes_;   // [rows, row_bytes]
  AlignedBuffer scales_;  // [rows] float
};

}  // namespace tahmin
