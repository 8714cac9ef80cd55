// One vectorised pass over a row of logits: its maximum, the maximum of every block of 64, and
// whether a NaN hides in it. The block maxima let the filters skip nearly the whole vocabulary.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tahmin {

constexpr size_t kScanBlock = 64;

struct RowScan {
  float max = 0;  // -infinity for an empty row; NaNs do not count
  bool has_nan = false;
  std::vector<float> block_max;  // ceil(size / kScanBlock)
};

// Overwrites `scan`, whose memory is reused.
void ScanRow(std::span<const float> row, RowScan& scan);

}  // namespace tahmin
