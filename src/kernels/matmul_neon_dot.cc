// NEON dot product kernels of the super layouts (K types), and the table of all: sums are integers
// for an activation block. The block layouts, whose float sums stay in registers from unit to unit,
// are in matmul_neon_dot_blocks.cc; what both share is in matmul_neon_dot-inl.h.
#include <arm_neon.h>

#include <cstdint>

#include "kernels/matmul_neon_dot-inl.h"

namespace tahmin::kernels {
namespace neon_dot {
namespace {

// Two 16-bit numbers, in every lane.
TAHMIN_INLINE int16x8_t BroadcastPair(const int16_t* pair) {
  int32_t word;
  __builtin_memcpy(&word, pair, 4);
  return vreinterpretq_s16_s32(vdupq_n_s32(word));
}

template <int kPlaneBitsOf, int kScaleColumnsOf, bool kHasMinOf>
struct SuperLayout {
  static constexpr int kScaleColumns = kScaleColumnsOf, kPairColumns = 2 * kScaleColumns;
  static constexpr bool kHasMin = kHasMinOf;
  using Packed = PackedQuants<kPlaneBitsOf>;
  static constexpr int kScaleBytes = kSuperColumns / kScaleColumns * kLanes;
  static constexpr int kMinBytes = kHasMin ? kScaleBytes : 0;
  static constexpr int kNumRuns = kSuperColumns / kBlockColumns;
  static constexpr int kUnitBytes = kScaleBytes + kMinBytes + kNumRuns * Packed::kBytes;
  static constexpr int kUnitHalves = (kHasMin ? 2 : 1) * kHalvesBytes;
};

// One unit. All pointers are to lane 0.
struct SuperUnit {
  const uint8_t* halves;  // d, then m
  const uint8_t* scales;
  const uint8_t* mins;
  const uint8_t* quants;
  const uint8_t* ahead;  // to prefetch, or null
  int64_t column;        // first column
  int32_t block;         // activation columns that share one scale; a power of two
};

// The integer scales (or minima) of one pair of scale blocks, of 4 lanes: [lane][2].
template <typename L>
TAHMIN_INLINE int16x8_t LoadPairs(const uint8_t* scales, int pair, int lane) {
  const uint8x8_t bytes = vld1_u8(scales + (pair * kLanes + lane) * 2);
  if constexpr (L::kHasMin) return vreinterpretq_s16_u16(vmovl_u8(bytes));
  return vmovl_s8(vreinterpret_s8_u8(bytes));
}

TAHMIN_INLINE Ints FirstOfPairs(int16x8_t pairs) {
  return vshrq_n_s32(vshlq_n_s32(vreinterpretq_s32_s16(pairs), 16), 16);
}
TAHMIN_INLINE Ints SecondOfPairs(int16x8_t pairs) {
  return vshrq_n_s32(vreinterpretq_s32_s16(pairs), 16);
}

// The sums over one activation block, which starts at `column` of the unit, of min (or scale) times
// activation sums: chains of 16-bit products.
template <typename L, int R, int Q>
TAHMIN_INLINE void MinDots(const SuperUnit& unit, const QuantizedRow* rows, int column, int lane,
                           Ints (&totals)[R][Q]) {
  const uint8_t* mins = L::kHasMin ? unit.mins : unit.scales;
  const int first = column / L::kPairColumns;
  const int num_pairs = unit.block < L::kPairColumns ? 1 : unit.block / L::kPairColumns;
  int32_t mask = -1;  // of a pair that spans two activation blocks, one counts
  if (unit.block < L::kPairColumns) mask = column % L::kPairColumns != 0 ? -65536 : 65535;
  Ints low[R][Q], high[R][Q];
  Clear(low);
  Clear(high);
  for (int pair = first; pair < first + num_pairs; ++pair) {
    int16x8_t pairs[Q];
    for (int q = 0; q < Q; ++q) {
      pairs[q] = vandq_s16(LoadPairs<L>(mins, pair, lane + q * kQuarterLanes),
                           vreinterpretq_s16_s32(vdupq_n_s32(mask)));
    }
    const int64_t at = unit.column / L::kScaleColumns + 2 * pair;
    for (int r = 0; r < R; ++r) {
      const int16x8_t sums =
          BroadcastPair((L::kScaleColumns == 16 ? rows[r].sums16 : rows[r].sums32) + at);
      for (int q = 0; q < Q; ++q) {
        low[r][q] = vmlal_s16(low[r][q], vget_low_s16(pairs[q]), vget_low_s16(sums));
        high[r][q] = vmlal_high_s16(high[r][q], pairs[q], sums);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int q = 0; q < Q; ++q) totals[r][q] = vpaddq_s32(low[r][q], high[r][q]);
  }
}

// out += scale of the activation block * (d * dots - m * min dots) for the activation block that
// starts at `column` of the unit; clears dots.
template <typename L, int R, int Q>
TAHMIN_INLINE void Flush(const SuperUnit& unit, const QuantizedRow* rows, int column,
                         int first_lane, Ints (&dots)[R][Q], float* out) {
  Ints min_dots[R][Q];
  MinDots<L>(unit, rows, column, first_lane, min_dots);
  const int64_t activation_block =
      (unit.column + column) >> __builtin_ctz(static_cast<unsigned>(unit.block));
  for (int q = 0; q < Q; ++q) {
    const int lane = first_lane + q * kQuarterLanes;
    const Floats d = LoadHalves(unit.halves + 2 * lane);
    for (int r = 0; r < R; ++r) {
      const float scale = rows[r].scales[activation_block];
      Floats sum = vld1q_f32(out + r * kLanes + lane);
      if constexpr (L::kHasMin) {
        const Floats m = LoadHalves(unit.halves + kHalvesBytes + 2 * lane);
        sum = vfmaq_f32(sum, vcvtq_f32_s32(dots[r][q]), vmulq_n_f32(d, scale));
        sum = vfmsq_f32(sum, vcvtq_f32_s32(min_dots[r][q]), vmulq_n_f32(m, scale));
      } else {
        const Ints centred = vsubq_s32(dots[r][q], vshlq_n_s32(min_dots[r][q], 5));
        sum = vfmaq_f32(sum, vcvtq_f32_s32(centred), vmulq_n_f32(d, scale));
      }
      vst1q_f32(out + r * kLanes + lane, sum);
    }
  }
  Clear(dots);
}

// dots += scale * (quants . x) over 32 columns, the kPart'th of 64 that start at `column`.
template <typename L, typename Quants, int kPart, int R, int Q>
TAHMIN_INLINE void AddRun(const SuperUnit& unit, const QuantizedRow* rows, int column, int lane,
                          Ints (&dots)[R][Q]) {
  const int at = column + kPart * kBlockColumns;
  const uint8_t* quants = unit.quants + at / kBlockColumns * Quants::kBytes + lane * 4;
  const int64_t x_column = unit.column + at;
  const int pair = at / L::kPairColumns;
  Ints sums[R][Q];
  Clear(sums);
  AddHalfRun<Quants, 0>(quants, rows, x_column, sums);
  if constexpr (L::kScaleColumns == 16) {
    for (int q = 0; q < Q; ++q) {
      const Ints scale = FirstOfPairs(LoadPairs<L>(unit.scales, pair, lane + q * kQuarterLanes));
      for (int r = 0; r < R; ++r) dots[r][q] = vmlaq_s32(dots[r][q], sums[r][q], scale);
    }
    Clear(sums);
  }
  AddHalfRun<Quants, 1>(quants, rows, x_column, sums);
  for (int q = 0; q < Q; ++q) {
    const int16x8_t pairs = LoadPairs<L>(unit.scales, pair, lane + q * kQuarterLanes);
    const bool is_first = L::kScaleColumns == 32 && kPart == 0;
    const Ints scale = is_first ? FirstOfPairs(pairs) : SecondOfPairs(pairs);
    for (int r = 0; r < R; ++r) dots[r][q] = vmlaq_s32(dots[r][q], sums[r][q], scale);
  }
}

// out[r] += unit . rows[r].
template <typename L, typename Quants, int R, int Q>
void SuperTile(const SuperUnit& unit, const QuantizedRow* rows, float* out) {
  const int block = unit.block;
  for (int lane = 0; lane < kLanes; lane += Q * kQuarterLanes) {
    Ints dots[R][Q];
    Clear(dots);
    for (int column = 0; column < kSuperColumns; column += 64) {
      if (unit.ahead != nullptr && lane == 0) {
        constexpr int kPart = (L::kUnitBytes + L::kUnitHalves) / 4;
        Prefetch(unit.ahead + column / 64 * kPart, kPart);
      }
      AddRun<L, Quants, 0>(unit, rows, column, lane, dots);
      if (block == 32) Flush<L>(unit, rows, column, lane, dots, out);
      AddRun<L, Quants, 1>(unit, rows, column, lane, dots);
      if (((column + 64) & (block - 1)) == 0) {
        Flush<L>(unit, rows, column + 64 - block, lane, dots, out);
      }
    }
  }
}

template <typename L, typename Quants>
TAHMIN_INLINE void SuperTiles(SuperUnit unit, const GroupPass& pass) {
  ForEachTile(pass.num_rows, [&](auto tile, int32_t row) {
    using Tile = decltype(tile);
    SuperTile<L, Quants, Tile::kRows, Tile::kQuarters>(unit, pass.rows + row,
                                                       pass.out + row * kLanes);
    unit.ahead = nullptr;
  });
}

template <typename L>
void Super(const GroupPass& pass) {
  alignas(kLineBytes) uint8_t unpacked[L::kNumRuns * kUnpackedBytes];
  ClearOut(pass);
  // Both sections of the group, and of the next one, once each.
  const uint8_t* ahead = pass.group + pass.halves_bytes + kPrefetchBytes;
  for (int64_t u = 0; u < pass.columns / kSuperColumns; ++u) {
    const uint8_t* bytes = pass.group + pass.halves_bytes + u * L::kUnitBytes;
    SuperUnit unit{pass.group + u * L::kUnitHalves,
                   bytes,
                   bytes + L::kScaleBytes,
                   bytes + L::kScaleBytes + L::kMinBytes,
                   ahead + u * (L::kUnitBytes + L::kUnitHalves),
                   u * kSuperColumns,
                   pass.block};
    if (pass.num_rows > kMaxTileRows) {  // unpacked once for all tiles
      UnpackQuants<typename L::Packed>(unit.quants, L::kNumRuns, unpacked);
      unit.quants = unpacked;
      SuperTiles<L, ByteQuants>(unit, pass);
    } else {
      SuperTiles<L, typename L::Packed>(unit, pass);
    }
  }
}

}  // namespace
}  // namespace neon_dot

const MatMulTable kMatMulNeonDot = {{
    neon_dot::Super<neon_dot::SuperLayout<0, 32, true>>,
    neon_dot::Super<neon_dot::SuperLayout<1, 32, true>>,
    neon_dot::Super<neon_dot::SuperLayout<2, 16, false>>,
    neon_dot::Super<neon_dot::SuperLayout<0, 16, true>>,
    neon_dot::MatMulQ4Block,
    neon_dot::MatMulQ5Block,
    neon_dot::MatMulQ8Block,
}};

}  // namespace tahmin::kernels
