#include "model/four_bit_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/four_bit_blocks.cc"
#include "hwy/foreach_target.h"  // re-includes this file once for each target

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tahmin::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::CappedTag<float, 16>;
using Vector = hn::VFromD<Tag>;

constexpr size_t kBlock = 32;
constexpr size_t kLanes = hn::MaxLanes(Tag());
constexpr uint16_t kHalfNan = 0x7E00;

// How much of the range is kept: clipping the outermost values makes the steps of all others finer.
constexpr float kClips[] = {1.0f, 1.08f, 1.2f};

HWY_INLINE float Sum(Vector v) { return hn::GetLane(hn::SumOfLanes(Tag(), v)); }

struct BlockSums {
  float sum = 0, squares = 0, low = 0, high = 0;
  bool is_finite = true;
};

HWY_INLINE BlockSums SumBlock(const float* x) {
  const Tag d;
  Vector sum = hn::Zero(d), squares = sum, magnitudes = sum;
  Vector low = hn::Load(d, x), high = low;
  for (size_t i = 0; i < kBlock; i += kLanes) {
    const Vector v = hn::Load(d, x + i);
    sum = hn::Add(sum, v);
    squares = hn::MulAdd(v, v, squares);
    magnitudes = hn::Add(magnitudes, hn::Abs(v));
    low = hn::Min(low, v);
    high = hn::Max(high, v);
  }
  return {Sum(sum), Sum(squares), hn::GetLane(hn::MinOfLanes(d, low)),
          hn::GetLane(hn::MaxOfLanes(d, high)),
          Sum(magnitudes) < std::numeric_limits<float>::infinity()};
}

// One way to put 16 levels on a line: quant = round((x - origin) * inverse), in [lowest, highest].
struct Grid {
  float origin, inverse, lowest, highest;
};

HWY_INLINE Vector QuantsOf(const Grid& grid, Vector x) {
  const Tag d;
  const Vector scaled = hn::Mul(hn::Sub(x, hn::Set(d, grid.origin)), hn::Set(d, grid.inverse));
  return hn::Round(hn::Min(hn::Max(scaled, hn::Set(d, grid.lowest)), hn::Set(d, grid.highest)));
}

struct QuantSums {
  float q, qq, qx;
};

// A line through the origin needs no sum of the quants.
enum class Offset { kNone, kFitted };

template <Offset offset>
HWY_INLINE QuantSums SumQuants(const Grid& grid, const float* x) {
  const Tag d;
  Vector q_sum = hn::Zero(d), qq = q_sum, qx = q_sum;
  for (size_t i = 0; i < kBlock; i += kLanes) {
    const Vector v = hn::Load(d, x + i);
    const Vector q = QuantsOf(grid, v);
    if constexpr (offset == Offset::kFitted) q_sum = hn::Add(q_sum, q);
    qq = hn::MulAdd(q, q, qq);
    qx = hn::MulAdd(q, v, qx);
  }
  return {offset == Offset::kFitted ? Sum(q_sum) : 0, Sum(qq), Sum(qx)};
}

void StoreQuants(const Grid& grid, const float* x, int32_t* quants) {
  const Tag d;
  const hn::RebindToSigned<Tag> di;
  for (size_t i = 0; i < kBlock; i += kLanes) {
    hn::StoreU(hn::ConvertTo(di, QuantsOf(grid, hn::Load(d, x + i))), di, quants + i);
  }
}

// value = step * quant + offset.
struct LineFit {
  float step = 0, offset = 0;
  float error = std::numeric_limits<float>::infinity();
};

// The least squares line through the origin.
LineFit FitScale(const QuantSums& sums, const BlockSums& block) {
  if (!(sums.qq > 0)) return {};
  const float step = sums.qx / sums.qq;
  return {step, 0, block.squares - step * sums.qx};
}

// The least squares line whose offset is not above zero, as Q4_K stores it.
LineFit FitScaleAndMin(const QuantSums& sums, const BlockSums& block) {
  constexpr float kCount = kBlock;
  const float spread = kCount * sums.qq - sums.q * sums.q;
  if (!(spread > 0)) return FitScale(sums, block);
  const float step = (kCount * sums.qx - sums.q * block.sum) / spread;
  const float offset = (block.sum - step * sums.q) / kCount;
  if (offset > 0) return FitScale(sums, block);
  return {step, offset, block.squares - step * sums.qx - offset * block.sum};
}

bool IsUsable(float step) { return std::abs(step) > 1e-30f; }

void QuantizeBlock(const float* x, BlockQ4_0& block) {
  const BlockSums sums = SumBlock(x);
  block = {};
  if (!sums.is_finite) {
    block.d = kHalfNan;
    return;
  }
  // The level -8 has no partner, so the larger side gets it: its step is then negative or positive.
  const float peak = -sums.low > sums.high ? sums.low : sums.high;
  LineFit best;
  if (IsUsable(peak)) {
    for (const float clip : kClips) {
      const Grid grid{0, -8 * clip / peak, -8, 7};
      const LineFit fit = FitScale(SumQuants<Offset::kNone>(grid, x), sums);
      if (fit.error < best.error) best = fit;
    }
    const Grid refined{0, IsUsable(best.step) ? 1 / best.step : 0, -8, 7};
    const LineFit fit = FitScale(SumQuants<Offset::kNone>(refined, x), sums);
    if (fit.error < best.error) best = fit;
  }
  block.d = FloatToHalf(best.step);
  const float step = HalfToFloat(block.d);
  int32_t quants[kBlock];
  StoreQuants({0, IsUsable(step) ? 1 / step : 0, -8, 7}, x, quants);
  for (int i = 0; i < 16; ++i) {
    block.qs[i] = static_cast<uint8_t>((quants[i] + 8) | (quants[i + 16] + 8) << 4);
  }
}

LineFit FitSubBlock(const float* x, const BlockSums& sums) {
  const float low = std::min(sums.low, 0.0f), range = sums.high - low;
  LineFit best;
  if (!IsUsable(range)) return {0, low, 0};
  for (const float clip : kClips) {
    const float kept = range / clip;
    const float origin = low == 0 ? 0 : std::min(low + 0.5f * (range - kept), 0.0f);
    const LineFit fit =
        FitScaleAndMin(SumQuants<Offset::kFitted>({origin, 15 / kept, 0, 15}, x), sums);
    if (fit.error < best.error) best = fit;
  }
  if (!IsUsable(best.step)) return best;
  const Grid refined{best.offset, 1 / best.step, 0, 15};
  const LineFit fit = FitScaleAndMin(SumQuants<Offset::kFitted>(refined, x), sums);
  return fit.error < best.error ? fit : best;
}

// 6-bit scales and minima, as Q4_K packs them.
void PackScales(const int32_t (&scales)[8], const int32_t (&mins)[8], uint8_t (&packed)[12]) {
  for (int j = 0; j < 4; ++j) {
    packed[j] = static_cast<uint8_t>(scales[j] | scales[j + 4] >> 4 << 6);
    packed[j + 4] = static_cast<uint8_t>(mins[j] | mins[j + 4] >> 4 << 6);
    packed[j + 8] = static_cast<uint8_t>((scales[j + 4] & 15) | (mins[j + 4] & 15) << 4);
  }
}

// The f16 unit of eight values that are stored in 6 bits each, and those.
uint16_t QuantizeScales(const float (&values)[8], int32_t (&quants)[8]) {
  const float largest = *std::max_element(values, values + 8);
  const uint16_t unit = FloatToHalf(largest / 63);
  const float step = HalfToFloat(unit);
  for (int j = 0; j < 8; ++j) {
    quants[j] = IsUsable(step)
                    ? static_cast<int32_t>(std::clamp(std::round(values[j] / step), 0.0f, 63.0f))
                    : 0;
  }
  return unit;
}

void QuantizeBlock(const float* x, BlockQ4_K& block) {
  block = {};
  float steps[8], mins[8];
  for (int sub = 0; sub < 8; ++sub) {
    const BlockSums sums = SumBlock(x + sub * kBlock);
    if (!sums.is_finite) {
      block.d = kHalfNan;
      return;
    }
    const LineFit fit = FitSubBlock(x + sub * kBlock, sums);
    steps[sub] = std::max(fit.step, 0.0f);
    mins[sub] = std::max(-fit.offset, 0.0f);
  }
  int32_t scale_quants[8], min_quants[8];
  block.d = QuantizeScales(steps, scale_quants);
  block.dmin = QuantizeScales(mins, min_quants);
  PackScales(scale_quants, min_quants, block.scales);
  const float d = HalfToFloat(block.d), dmin = HalfToFloat(block.dmin);
  for (int sub = 0; sub < 8; ++sub) {
    const float step = d * static_cast<float>(scale_quants[sub]);
    const float origin = -dmin * static_cast<float>(min_quants[sub]);
    int32_t quants[kBlock];
    StoreQuants({origin, IsUsable(step) ? 1 / step : 0, 0, 15}, x + sub * kBlock, quants);
    for (size_t i = 0; i < kBlock; ++i) {
      block.qs[sub / 2 * 32 + i] |= static_cast<uint8_t>(quants[i] << (sub % 2 * 4));
    }
  }
}

template <typename Block, size_t kElements>
void QuantizeBlocks(const float* values, size_t num_blocks, uint8_t* out) {
  HWY_ALIGN float x[kElements];
  for (size_t i = 0; i < num_blocks; ++i) {
    std::memcpy(x, values + i * kElements, sizeof(x));
    Block block;
    QuantizeBlock(x, block);
    std::memcpy(out + i * sizeof(Block), &block, sizeof(Block));
  }
}

}  // namespace

void QuantizeToQ4_0(const float* values, size_t num_blocks, uint8_t* out) {
  QuantizeBlocks<BlockQ4_0, kBlock>(values, num_blocks, out);
}

void QuantizeToQ4_K(const float* values, size_t num_blocks, uint8_t* out) {
  QuantizeBlocks<BlockQ4_K, kSuperBlock>(values, num_blocks, out);
}

}  // namespace tahmin::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tahmin {

HWY_EXPORT(QuantizeToQ4_0);
HWY_EXPORT(QuantizeToQ4_K);

TensorType FourBitType(TensorType stored, int64_t columns) {
  switch (stored) {
    case TensorType::kQ4_0:
    case TensorType::kQ4_1:
    case TensorType::kQ4_K:
    case TensorType::kQ2_K:
      return stored;
    default:
      break;
  }
  if (columns % kSuperBlock == 0) return TensorType::kQ4_K;
  return columns % 32 == 0 ? TensorType::kQ4_0 : stored;
}

void QuantizeFourBits(TensorType type, std::span<const float> values, std::span<uint8_t> blocks) {
  const bool is_super = type == TensorType::kQ4_K;
  TAHMIN_CHECK(is_super || type == TensorType::kQ4_0);
  const size_t elements = is_super ? kSuperBlock : 32;
  const size_t num_blocks = values.size() / elements;
  TAHMIN_CHECK(values.size() == num_blocks * elements);
  TAHMIN_CHECK(blocks.size() == num_blocks * (is_super ? sizeof(BlockQ4_K) : sizeof(BlockQ4_0)));
  if (is_super) {
    HWY_DYNAMIC_DISPATCH(QuantizeToQ4_K)(values.data(), num_blocks, blocks.data());
  } else {
    HWY_DYNAMIC_DISPATCH(QuantizeToQ4_0)(values.data(), num_blocks, blocks.data());
  }
}

}  // namespace tahmin
#endif  // HWY_ONCE
