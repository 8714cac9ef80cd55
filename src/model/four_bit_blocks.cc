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
using Tag = hn::CappedTag<float, 8>;
using Vector = hn::VFromD<Tag>;
using Mask = decltype(hn::Eq(Vector(), Vector()));

constexpr size_t kBlock = 32;
constexpr uint16_t kHalfNan = 0x7E00;

// Blocks are quantised kLanes at a time, one in each lane: no sum crosses lanes, and one division
// serves all of them. A tile is their values, [32, kLanes].
constexpr size_t kLanes = hn::MaxLanes(Tag());
constexpr size_t kTile = kBlock * kLanes;

// How much of the range is kept: clipping the outermost values makes the steps of all others finer.
constexpr float kClips[] = {1.0f, 1.08f, 1.2f};

HWY_INLINE Vector Element(const float* tile, size_t i) {
  return hn::Load(Tag(), tile + i * kLanes);
}

HWY_INLINE Vector Constant(float value) { return hn::Set(Tag(), value); }

#if HWY_TARGET == HWY_SCALAR

void FillTile(const float* blocks, float* tile) {
  std::memcpy(tile, blocks, kTile * sizeof(float));
}

#else

// Four elements of four blocks: from one block after the other to one element after the other.
HWY_INLINE void Transpose(const float* blocks, float* tile) {
  const hn::CappedTag<float, 4> d;
  const auto a = hn::LoadU(d, blocks), b = hn::LoadU(d, blocks + kBlock);
  const auto c = hn::LoadU(d, blocks + 2 * kBlock), e = hn::LoadU(d, blocks + 3 * kBlock);
  const auto ab = hn::InterleaveLower(d, a, b), ce = hn::InterleaveLower(d, c, e);
  hn::Store(hn::ConcatLowerLower(d, ce, ab), d, tile);
  hn::Store(hn::ConcatUpperUpper(d, ce, ab), d, tile + kLanes);
  const auto upper_ab = hn::InterleaveUpper(d, a, b), upper_ce = hn::InterleaveUpper(d, c, e);
  hn::Store(hn::ConcatLowerLower(d, upper_ce, upper_ab), d, tile + 2 * kLanes);
  hn::Store(hn::ConcatUpperUpper(d, upper_ce, upper_ab), d, tile + 3 * kLanes);
}

// From kLanes blocks, one after the other.
void FillTile(const float* blocks, float* tile) {
  for (size_t lane = 0; lane < kLanes; lane += 4) {
    for (size_t i = 0; i < kBlock; i += 4) {
      Transpose(blocks + lane * kBlock + i, tile + i * kLanes + lane);
    }
  }
}

#endif

// Sums over a block go in one order on every instruction set: eight running sums (a run: elements
// first, first + 8, first + 16, first + 24), then their tree.
struct BlockSums {
  Vector sum, squares, magnitudes, low, high;
};

HWY_INLINE BlockSums operator+(const BlockSums& a, const BlockSums& b) {
  return {hn::Add(a.sum, b.sum), hn::Add(a.squares, b.squares), hn::Add(a.magnitudes, b.magnitudes),
          hn::Min(a.low, b.low), hn::Max(a.high, b.high)};
}

HWY_INLINE BlockSums SumRun(const float* tile, size_t first) {
  const Vector v = Element(tile, first);
  BlockSums sums{v, hn::Mul(v, v), hn::Abs(v), v, v};
  for (size_t i = first + 8; i < kBlock; i += 8) {
    const Vector x = Element(tile, i);
    sums.sum = hn::Add(sums.sum, x);
    sums.squares = hn::MulAdd(x, x, sums.squares);
    sums.magnitudes = hn::Add(sums.magnitudes, hn::Abs(x));
    sums.low = hn::Min(sums.low, x);
    sums.high = hn::Max(sums.high, x);
  }
  return sums;
}

HWY_INLINE BlockSums SumBlocks(const float* tile) {
  const BlockSums even = (SumRun(tile, 0) + SumRun(tile, 4)) + (SumRun(tile, 2) + SumRun(tile, 6));
  const BlockSums odd = (SumRun(tile, 1) + SumRun(tile, 5)) + (SumRun(tile, 3) + SumRun(tile, 7));
  return even + odd;
}

HWY_INLINE Mask IsFinite(const BlockSums& block) {
  return hn::Lt(block.magnitudes, Constant(std::numeric_limits<float>::infinity()));
}

// One way to put 16 levels on a line: quant = round((x - origin) * inverse), in [lowest, highest].
struct Grid {
  Vector origin, inverse;
  float lowest, highest;
};

HWY_INLINE Vector QuantsOf(const Grid& grid, Vector x) {
  const Vector scaled = hn::Mul(hn::Sub(x, grid.origin), grid.inverse);
  return hn::Round(hn::Min(hn::Max(scaled, Constant(grid.lowest)), Constant(grid.highest)));
}

struct QuantSums {
  Vector q, qq, qx;
};

HWY_INLINE QuantSums operator+(const QuantSums& a, const QuantSums& b) {
  return {hn::Add(a.q, b.q), hn::Add(a.qq, b.qq), hn::Add(a.qx, b.qx)};
}

HWY_INLINE QuantSums SumRun(const Grid& grid, const float* tile, size_t first) {
  Vector x = Element(tile, first), q = QuantsOf(grid, x);
  QuantSums sums{q, hn::Mul(q, q), hn::Mul(q, x)};
  for (size_t i = first + 8; i < kBlock; i += 8) {
    x = Element(tile, i);
    q = QuantsOf(grid, x);
    sums.q = hn::Add(sums.q, q);
    sums.qq = hn::MulAdd(q, q, sums.qq);
    sums.qx = hn::MulAdd(q, x, sums.qx);
  }
  return sums;
}

HWY_INLINE QuantSums SumQuants(const Grid& grid, const float* tile) {
  const QuantSums even = (SumRun(grid, tile, 0) + SumRun(grid, tile, 4)) +
                         (SumRun(grid, tile, 2) + SumRun(grid, tile, 6));
  const QuantSums odd = (SumRun(grid, tile, 1) + SumRun(grid, tile, 5)) +
                        (SumRun(grid, tile, 3) + SumRun(grid, tile, 7));
  return even + odd;
}

// The level of an element, from 0, as a number of 32 bits in each lane.
HWY_INLINE auto LevelOf(const Grid& grid, const float* tile, size_t i) {
  const hn::RebindToSigned<Tag> di;
  const Vector level = hn::Sub(QuantsOf(grid, Element(tile, i)), Constant(grid.lowest));
  // What is not finite has no level: it must not reach the conversion.
  return hn::ConvertTo(di, hn::IfThenElseZero(hn::Eq(level, level), level));
}

// The levels of each block as bytes, element 4 k + j in byte j of word k: [8, kLanes].
void StoreLevels(const Grid& grid, const float* tile, uint32_t* words) {
  const hn::RebindToUnsigned<Tag> du;
  for (size_t i = 0; i < kBlock; i += 4) {
    const auto low = hn::Or(LevelOf(grid, tile, i), hn::ShiftLeft<8>(LevelOf(grid, tile, i + 1)));
    const auto high =
        hn::Or(LevelOf(grid, tile, i + 2), hn::ShiftLeft<8>(LevelOf(grid, tile, i + 3)));
    hn::Store(hn::BitCast(du, hn::Or(low, hn::ShiftLeft<16>(high))), du, words + i / 4 * kLanes);
  }
}

// Word k of a block of the tiles that begin at `words`.
uint32_t WordOf(const uint32_t* words, size_t block, size_t k) {
  return words[block / kLanes * (kTile / 4) + k * kLanes + block % kLanes];
}

// value = step * quant + offset.
struct LineFit {
  Vector step, offset, error;
};

HWY_INLINE LineFit NoFit() {
  return {hn::Zero(Tag()), hn::Zero(Tag()), Constant(std::numeric_limits<float>::infinity())};
}

HWY_INLINE LineFit Choose(Mask mask, const LineFit& yes, const LineFit& no) {
  return {hn::IfThenElse(mask, yes.step, no.step), hn::IfThenElse(mask, yes.offset, no.offset),
          hn::IfThenElse(mask, yes.error, no.error)};
}

HWY_INLINE LineFit Better(const LineFit& fit, const LineFit& best) {
  return Choose(hn::Lt(fit.error, best.error), fit, best);
}

// The least squares line through the origin.
HWY_INLINE LineFit FitScale(const QuantSums& sums, const BlockSums& block) {
  const Vector step = hn::Div(sums.qx, sums.qq);
  const LineFit fit{step, hn::Zero(Tag()), hn::Sub(block.squares, hn::Mul(step, sums.qx))};
  return Choose(hn::Gt(sums.qq, hn::Zero(Tag())), fit, NoFit());
}

// The least squares line whose offset is not above zero, as Q4_K stores it.
HWY_INLINE LineFit FitScaleAndMin(const QuantSums& sums, const BlockSums& block) {
  const Vector count = Constant(kBlock), zero = hn::Zero(Tag());
  const Vector spread = hn::Sub(hn::Mul(count, sums.qq), hn::Mul(sums.q, sums.q));
  const Vector product = hn::Sub(hn::Mul(count, sums.qx), hn::Mul(sums.q, block.sum));
  const Vector step = hn::Div(product, spread);
  const Vector offset = hn::Div(hn::Sub(block.sum, hn::Mul(step, sums.q)), count);
  const Vector error =
      hn::Sub(hn::Sub(block.squares, hn::Mul(step, sums.qx)), hn::Mul(offset, block.sum));
  const Mask is_line = hn::AndNot(hn::Gt(offset, zero), hn::Gt(spread, zero));
  return Choose(is_line, {step, offset, error}, FitScale(sums, block));
}

constexpr float kLeastStep = 1e-30f;
HWY_INLINE Mask IsUsable(Vector step) { return hn::Gt(hn::Abs(step), Constant(kLeastStep)); }

HWY_INLINE Vector InverseOrZero(Vector step) {
  return hn::IfThenElseZero(IsUsable(step), hn::Div(Constant(1), step));
}

HWY_INLINE Grid SymmetricGrid(Vector inverse) { return {hn::Zero(Tag()), inverse, -8, 7}; }

// The steps of blocks without a minimum.
HWY_INLINE Vector FitSteps(const float* tile, const BlockSums& sums) {
  // The level -8 has no partner, so the larger side gets it: its step is then negative or positive.
  const Vector peak = hn::IfThenElse(hn::Gt(hn::Neg(sums.low), sums.high), sums.low, sums.high);
  LineFit best = NoFit();
  for (const float clip : kClips) {
    const Grid grid = SymmetricGrid(hn::Div(Constant(-8 * clip), peak));
    best = Better(FitScale(SumQuants(grid, tile), sums), best);
  }
  const Grid refined = SymmetricGrid(InverseOrZero(best.step));
  best = Better(FitScale(SumQuants(refined, tile), sums), best);
  return hn::IfThenElseZero(IsUsable(peak), best.step);
}

HWY_INLINE LineFit FitLines(const float* tile, const BlockSums& sums) {
  const Vector zero = hn::Zero(Tag());
  const Vector low = hn::Min(sums.low, zero), range = hn::Sub(sums.high, low);
  LineFit best = NoFit();
  for (const float clip : kClips) {
    const Vector kept = hn::Div(range, Constant(clip));
    const Vector clipped = hn::Add(low, hn::Mul(Constant(0.5f), hn::Sub(range, kept)));
    const Vector origin = hn::IfThenElse(hn::Eq(low, zero), zero, hn::Min(clipped, zero));
    const Grid grid{origin, hn::Div(Constant(15), kept), 0, 15};
    best = Better(FitScaleAndMin(SumQuants(grid, tile), sums), best);
  }
  const Grid refined{best.offset, InverseOrZero(best.step), 0, 15};
  best = Better(FitScaleAndMin(SumQuants(refined, tile), sums), best);
  return Choose(IsUsable(range), best, {zero, low, zero});
}

void QuantizeTile(const float* tile, size_t num_blocks, uint8_t* out) {
  const Tag d;
  const BlockSums sums = SumBlocks(tile);
  HWY_ALIGN float is_finite[kLanes], steps[kLanes];
  HWY_ALIGN uint32_t words[kTile / 4];
  uint16_t halves[kLanes];
  hn::Store(hn::IfThenElseZero(IsFinite(sums), Constant(1)), d, is_finite);
  hn::Store(FitSteps(tile, sums), d, steps);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    halves[lane] = FloatToHalf(steps[lane]);
    steps[lane] = HalfToFloat(halves[lane]);
  }
  StoreLevels(SymmetricGrid(InverseOrZero(hn::Load(d, steps))), tile, words);
  for (size_t lane = 0; lane < num_blocks; ++lane) {
    BlockQ4_0 block = {.d = kHalfNan, .qs = {}};
    if (is_finite[lane] != 0) {
      block.d = halves[lane];
      for (size_t k = 0; k < kBlock / 8; ++k) {
        const uint32_t both = WordOf(words, lane, k) | WordOf(words, lane, k + 4) << 4;
        std::memcpy(block.qs + 4 * k, &both, 4);
      }
    }
    std::memcpy(out + lane * sizeof(block), &block, sizeof(block));
  }
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
    quants[j] = step > kLeastStep
                    ? static_cast<int32_t>(std::clamp(std::round(values[j] / step), 0.0f, 63.0f))
                    : 0;
  }
  return unit;
}

void QuantizeSuperBlock(const float* x, BlockQ4_K& block) {
  const Tag d;
  constexpr size_t kSubBlocks = 8;
  block = {};
  HWY_ALIGN float tiles[kSuperBlock], steps[kSubBlocks], mins[kSubBlocks];
  for (size_t sub = 0; sub < kSubBlocks; sub += kLanes) {
    float* tile = tiles + sub * kBlock;
    FillTile(x + sub * kBlock, tile);
    const BlockSums sums = SumBlocks(tile);
    if (!hn::AllTrue(d, IsFinite(sums))) {
      block.d = kHalfNan;
      return;
    }
    const LineFit fit = FitLines(tile, sums);
    hn::Store(hn::Max(fit.step, hn::Zero(d)), d, steps + sub);
    hn::Store(hn::Neg(fit.offset), d, mins + sub);
  }
  int32_t scale_quants[kSubBlocks], min_quants[kSubBlocks];
  block.d = QuantizeScales(steps, scale_quants);
  block.dmin = QuantizeScales(mins, min_quants);
  PackScales(scale_quants, min_quants, block.scales);
  for (size_t sub = 0; sub < kSubBlocks; ++sub) {
    steps[sub] = HalfToFloat(block.d) * static_cast<float>(scale_quants[sub]);
    mins[sub] = HalfToFloat(block.dmin) * static_cast<float>(min_quants[sub]);
  }
  HWY_ALIGN uint32_t words[kSuperBlock / 4];
  for (size_t sub = 0; sub < kSubBlocks; sub += kLanes) {
    const Vector origin = hn::Neg(hn::Load(d, mins + sub));
    const Grid grid{origin, InverseOrZero(hn::Load(d, steps + sub)), 0, 15};
    StoreLevels(grid, tiles + sub * kBlock, words + sub * kBlock / 4);
  }
  for (size_t sub = 0; sub < kSubBlocks; sub += 2) {
    for (size_t k = 0; k < kBlock / 4; ++k) {
      const uint32_t both = WordOf(words, sub, k) | WordOf(words, sub + 1, k) << 4;
      std::memcpy(block.qs + sub / 2 * kBlock + 4 * k, &both, 4);
    }
  }
}

}  // namespace

void QuantizeToQ4_0(const float* values, size_t num_blocks, uint8_t* out) {
  HWY_ALIGN float tile[kTile], padded[kTile];
  for (size_t i = 0; i < num_blocks; i += kLanes) {
    const size_t count = std::min(kLanes, num_blocks - i);
    const float* blocks = values + i * kBlock;
    if (count < kLanes) {
      std::fill_n(std::copy_n(blocks, count * kBlock, padded), (kLanes - count) * kBlock, 0.0f);
      blocks = padded;
    }
    FillTile(blocks, tile);
    QuantizeTile(tile, count, out + i * sizeof(BlockQ4_0));
  }
}

void QuantizeToQ4_K(const float* values, size_t num_blocks, uint8_t* out) {
  BlockQ4_K block;
  for (size_t i = 0; i < num_blocks; ++i) {
    QuantizeSuperBlock(values + i * kSuperBlock, block);
    std::memcpy(out + i * sizeof(block), &block, sizeof(block));
  }
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
