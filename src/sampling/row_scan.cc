#include "sampling/row_scan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampling/row_scan.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tahmin {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Writes the maximum of each whole block; true when a NaN was seen. A NaN never becomes a maximum:
// Max() with a NaN operand differs between instruction sets, a comparison does not.
bool ScanBlocks(const float* row, size_t num_blocks, float* block_max) {
  const hn::CappedTag<float, kScanBlock> d;
  const size_t lanes = hn::Lanes(d);
  auto nan_seen = hn::IsNaN(hn::Zero(d));  // none yet
  for (size_t block = 0; block < num_blocks; ++block) {
    auto max = hn::Set(d, -HUGE_VALF);
    for (size_t i = 0; i < kScanBlock; i += lanes) {
      const auto value = hn::LoadU(d, row + block * kScanBlock + i);
      nan_seen = hn::Or(nan_seen, hn::IsNaN(value));
      max = hn::IfThenElse(hn::Gt(value, max), value, max);
    }
    block_max[block] = hn::GetLane(hn::MaxOfLanes(d, max));
  }
  return !hn::AllFalse(d, nan_seen);
}

}  // namespace HWY_NAMESPACE
}  // namespace tahmin
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace tahmin {

HWY_EXPORT(ScanBlocks);

void ScanRow(std::span<const float> row, RowScan& scan) {
  const size_t num_whole_blocks = row.size() / kScanBlock;
  scan.block_max.resize((row.size() + kScanBlock - 1) / kScanBlock);
  scan.has_nan =
      HWY_DYNAMIC_DISPATCH(ScanBlocks)(row.data(), num_whole_blocks, scan.block_max.data());
  if (num_whole_blocks < scan.block_max.size()) {
    float tail_max = -std::numeric_limits<float>::infinity();
    for (const float value : row.subspan(num_whole_blocks * kScanBlock)) {
      scan.has_nan |= std::isnan(value);
      if (value > tail_max) tail_max = value;
    }
    scan.block_max.back() = tail_max;
  }
  scan.max = -std::numeric_limits<float>::infinity();
  for (const float value : scan.block_max) scan.max = std::max(scan.max, value);
}

}  // namespace tahmin
#endif  // HWY_ONCE
