// Integer matmul kernels for Arm NEON with the dot product (Armv8.2 SDOT). A line of 16 weight rows
// is four registers ("quarters") of 4 rows; 16 activations of a row are one register, of which SDOT
// takes 4 by lane number: no broadcasts. All quants fit a signed byte, and SDOT adds into 32 bits
// without saturation. A tile of R activation rows and Q quarters holds R * Q <= 8 accumulators of
// each kind in the 32 registers: few rows take all quarters of a line at once, eight rows one
// quarter after the other, so that each unpacked register serves all rows. The order of float
// operations depends on (layout, activation block) alone, never on the tile.
#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "kernels/matmul_tables.h"

#define TAHMIN_INLINE static inline __attribute__((always_inline))

namespace tahmin::kernels {
namespace neon_dot {
namespace {

using Ints = int32x4_t;
using Floats = float32x4_t;

constexpr int kQuarterBytes = 16;               // one quarter of a line
constexpr int kQuarterLanes = 4;                // weight rows of one quarter
constexpr int kMaxTileRows = 8;                 // activation rows that share a weight register
constexpr int kUnpackedBytes = 8 * kLineBytes;  // unpacked quants of 32 columns
constexpr int kRunUnits = 8;                    // block units per tile call: 256 columns
constexpr int64_t kPrefetchBytes = 2048;        // how far ahead of the reads to prefetch
constexpr int TileQuarters(int rows) { return rows <= 2 ? 4 : rows <= 4 ? 2 : 1; }

TAHMIN_INLINE void Prefetch(const uint8_t* bytes, int64_t num_bytes) {
  for (int64_t i = 0; i < num_bytes; i += kLineBytes) __builtin_prefetch(bytes + i);
}

TAHMIN_INLINE Floats LoadHalves(const uint8_t* bytes) {
  return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(bytes)));
}

TAHMIN_INLINE void ClearOut(const GroupPass& pass) {
  for (int32_t i = 0; i < pass.num_rows * kLanes; i += 4) vst1q_f32(pass.out + i, vdupq_n_f32(0));
}

// Two 16-bit numbers, in every lane.
TAHMIN_INLINE int16x8_t BroadcastPair(const int16_t* pair) {
  int32_t word;
  __builtin_memcpy(&word, pair, 4);
  return vreinterpretq_s16_s32(vdupq_n_s32(word));
}

// ---- Quants ------------------------------------------------------------------------------------

// Bit (or two bits) at `kFrom` of each byte, moved to bit 4; other bits are arbitrary.
template <int kFrom>
TAHMIN_INLINE uint8x16_t MoveToBit4(uint8x16_t plane) {
  if constexpr (kFrom < 4) {
    return vshlq_n_u8(plane, 4 - kFrom);
  } else if constexpr (kFrom > 4) {
    return vshrq_n_u8(plane, kFrom - 4);
  } else {
    return plane;
  }
}

// Quants in the form of the packed group. Line<l> gives one quarter of line l: `even` = quad 2l,
// `odd` = quad 2l + 1; `quants` points at the quarter's bytes of line 0.
template <int kPlaneBits>
struct PackedQuants {
  static constexpr int kBytes = kNibbleBytes + kPlaneBits * kLineBytes;

  template <int kLine>
  TAHMIN_INLINE void Line(const uint8_t* quants, int8x16_t& even, int8x16_t& odd) {
    const uint8x16_t packed = vld1q_u8(quants + kLine * kLineBytes);
    uint8x16_t e = vandq_u8(packed, vdupq_n_u8(15));
    uint8x16_t o = vshrq_n_u8(packed, 4);
    if constexpr (kPlaneBits == 1) {
      const uint8x16_t plane = vld1q_u8(quants + kNibbleBytes);
      e = vbslq_u8(vdupq_n_u8(16), MoveToBit4<2 * kLine>(plane), e);
      o = vbslq_u8(vdupq_n_u8(16), MoveToBit4<2 * kLine + 1>(plane), o);
    }
    if constexpr (kPlaneBits == 2) {
      const uint8x16_t plane = vld1q_u8(quants + kNibbleBytes + kLine / 2 * kLineBytes);
      e = vbslq_u8(vdupq_n_u8(48), MoveToBit4<kLine % 2 * 4>(plane), e);
      o = vbslq_u8(vdupq_n_u8(48), MoveToBit4<kLine % 2 * 4 + 2>(plane), o);
    }
    even = vreinterpretq_s8_u8(e);
    odd = vreinterpretq_s8_u8(o);
  }
};

// One byte each: kQ8Block as stored, and the scratch of UnpackQuants.
struct ByteQuants {
  static constexpr int kBytes = kByteQuantBytes;

  template <int kLine>
  TAHMIN_INLINE void Line(const uint8_t* quants, int8x16_t& even, int8x16_t& odd) {
    const int8_t* bytes = reinterpret_cast<const int8_t*>(quants) + 2 * kLine * kLineBytes;
    even = vld1q_s8(bytes);
    odd = vld1q_s8(bytes + kLineBytes);
  }
};

template <typename Quants, int kLine>
TAHMIN_INLINE void UnpackLine(const uint8_t* quants, uint8_t* out) {
  for (int at = 0; at < kLineBytes; at += kQuarterBytes) {
    int8x16_t even, odd;
    Quants::template Line<kLine>(quants + at, even, odd);
    vst1q_s8(reinterpret_cast<int8_t*>(out) + 2 * kLine * kLineBytes + at, even);
    vst1q_s8(reinterpret_cast<int8_t*>(out) + (2 * kLine + 1) * kLineBytes + at, odd);
  }
}

template <typename Quants>
void UnpackQuants(const uint8_t* quants, int num_blocks, uint8_t* out) {
  for (int i = 0; i < num_blocks; ++i) {
    UnpackLine<Quants, 0>(quants, out);
    UnpackLine<Quants, 1>(quants, out);
    UnpackLine<Quants, 2>(quants, out);
    UnpackLine<Quants, 3>(quants, out);
    quants += Quants::kBytes;
    out += kUnpackedBytes;
  }
}

// sums[r] += quants . x[r] over one line, whose activations are lanes kLane and kLane + 1 of x[r].
template <typename Quants, int kLine, int R, int Q>
TAHMIN_INLINE void AddLine(const uint8_t* quants, const int8x16_t (&x)[R], Ints (&sums)[R][Q]) {
  constexpr int kLane = kLine % 2 * 2;
  for (int q = 0; q < Q; ++q) {
    int8x16_t even, odd;
    Quants::template Line<kLine>(quants + q * kQuarterBytes, even, odd);
    for (int r = 0; r < R; ++r) {
      sums[r][q] = vdotq_laneq_s32(sums[r][q], even, x[r], kLane);
      sums[r][q] = vdotq_laneq_s32(sums[r][q], odd, x[r], kLane + 1);
    }
  }
}

// The same over the first (kHalf == 0) or last 16 of 32 columns, the first of which is `column`.
template <typename Quants, int kHalf, int R, int Q>
TAHMIN_INLINE void AddHalfRun(const uint8_t* quants, const QuantizedRow* rows, int64_t column,
                              Ints (&sums)[R][Q]) {
  int8x16_t x[R];
  for (int r = 0; r < R; ++r) x[r] = vld1q_s8(rows[r].values + column + 16 * kHalf);
  AddLine<Quants, 2 * kHalf>(quants, x, sums);
  AddLine<Quants, 2 * kHalf + 1>(quants, x, sums);
}

template <int R, int Q>
TAHMIN_INLINE void Clear(Ints (&values)[R][Q]) {
  for (int r = 0; r < R; ++r) {
    for (int q = 0; q < Q; ++q) values[r][q] = vdupq_n_s32(0);
  }
}

// Calls tile(constant R, first row) so that tiles of up to kMaxTileRows rows cover all rows.
template <int R>
struct TileRows {
  static constexpr int kRows = R;
  static constexpr int kQuarters = TileQuarters(R);
};
template <typename Tile>
TAHMIN_INLINE void ForEachTile(int32_t num_rows, Tile tile) {
  int32_t row = 0;
  for (; row + kMaxTileRows <= num_rows; row += kMaxTileRows) tile(TileRows<8>(), row);
  switch (num_rows - row) {
    case 7:
      return tile(TileRows<7>(), row);
    case 6:
      return tile(TileRows<6>(), row);
    case 5:
      return tile(TileRows<5>(), row);
    case 4:
      return tile(TileRows<4>(), row);
    case 3:
      return tile(TileRows<3>(), row);
    case 2:
      return tile(TileRows<2>(), row);
    case 1:
      return tile(TileRows<1>(), row);
    default:
      return;
  }
}

// ---- Super layouts -----------------------------------------------------------------------------

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

// ---- Block layouts -----------------------------------------------------------------------------

// A run of units (32 columns each).
struct BlockRun {
  const uint8_t* halves;  // d [16], then m [16] with kHasMin, per unit
  const uint8_t* quants;
  int64_t column;  // first column
  int32_t num_units;
  int32_t block_shift;  // log2 of the activation block
  int32_t zero_point;
};

// out[r] += d * scale * dot (+ m * scaled sum) of unit u.
template <bool kHasMin, int R, int Q>
TAHMIN_INLINE void FlushUnit(const BlockRun& run, const QuantizedRow* rows, int32_t u, int lane,
                             const Ints (&dots)[R][Q], Floats (&out)[R][Q]) {
  const int64_t column = run.column + u * kBlockColumns;
  const uint8_t* halves = run.halves + u * (kHasMin ? 2 : 1) * kHalvesBytes + 2 * lane;
  for (int q = 0; q < Q; ++q) {
    const Floats d = LoadHalves(halves + q * 2 * kQuarterLanes);
    for (int r = 0; r < R; ++r) {
      const float scale = rows[r].scales[column >> run.block_shift];
      out[r][q] = vfmaq_f32(out[r][q], vcvtq_f32_s32(dots[r][q]), vmulq_n_f32(d, scale));
      if constexpr (kHasMin) {
        const Floats m = LoadHalves(halves + kHalvesBytes + q * 2 * kQuarterLanes);
        const float sum = rows[r].scaled_sums[column / kBlockColumns];
        out[r][q] = vfmaq_f32(out[r][q], m, vdupq_n_f32(sum));
      }
    }
  }
}

template <typename Quants, bool kHasMin, int R, int Q>
void BlockTile(const BlockRun& run, const QuantizedRow* rows, float* out) {
  for (int lane = 0; lane < kLanes; lane += Q * kQuarterLanes) {
    Floats sums[R][Q];
    for (int r = 0; r < R; ++r) {
      for (int q = 0; q < Q; ++q) {
        sums[r][q] = vld1q_f32(out + r * kLanes + lane + q * kQuarterLanes);
      }
    }
    for (int32_t u = 0; u < run.num_units; ++u) {
      const int64_t column = run.column + u * kBlockColumns;
      const uint8_t* quants = run.quants + u * Quants::kBytes + lane * 4;
      Ints dots[R][Q];
      for (int r = 0; r < R; ++r) {
        const int32_t sum = kHasMin ? 0 : rows[r].sums32[column / kBlockColumns];
        for (int q = 0; q < Q; ++q) dots[r][q] = vdupq_n_s32(-run.zero_point * sum);
      }
      AddHalfRun<Quants, 0>(quants, rows, column, dots);
      AddHalfRun<Quants, 1>(quants, rows, column, dots);
      FlushUnit<kHasMin>(run, rows, u, lane, dots, sums);
    }
    for (int r = 0; r < R; ++r) {
      for (int q = 0; q < Q; ++q) {
        vst1q_f32(out + r * kLanes + lane + q * kQuarterLanes, sums[r][q]);
      }
    }
  }
}

template <typename Quants, bool kHasMin>
TAHMIN_INLINE void BlockTiles(const BlockRun& run, const GroupPass& pass) {
  ForEachTile(pass.num_rows, [&](auto tile, int32_t row) {
    using Tile = decltype(tile);
    BlockTile<Quants, kHasMin, Tile::kRows, Tile::kQuarters>(run, pass.rows + row,
                                                             pass.out + row * kLanes);
  });
}

template <typename Quants, bool kHasMin>
void BlockGroup(const GroupPass& pass) {
  constexpr bool kIsPacked = Quants::kBytes != kUnpackedBytes;
  constexpr int kUnitHalves = (kHasMin ? 2 : 1) * kHalvesBytes;
  alignas(kLineBytes) uint8_t unpacked[kIsPacked ? kRunUnits * kUnpackedBytes : 1];
  ClearOut(pass);
  const int32_t block_shift = __builtin_ctz(static_cast<unsigned>(pass.block));
  const uint8_t* ahead = pass.group + pass.halves_bytes + kPrefetchBytes;
  const int64_t num_units = pass.columns / kBlockColumns;
  for (int64_t u = 0; u < num_units; u += kRunUnits) {
    const int32_t count =
        static_cast<int32_t>(num_units - u < kRunUnits ? num_units - u : kRunUnits);
    BlockRun run{pass.group + u * kUnitHalves,
                 pass.group + pass.halves_bytes + u * Quants::kBytes,
                 u * kBlockColumns,
                 count,
                 block_shift,
                 pass.zero_point};
    Prefetch(ahead + u * (Quants::kBytes + kUnitHalves), count * (Quants::kBytes + kUnitHalves));
    if (kIsPacked && pass.num_rows > kMaxTileRows) {
      UnpackQuants<Quants>(run.quants, count, unpacked);
      run.quants = unpacked;
      BlockTiles<ByteQuants, kHasMin>(run, pass);
    } else {
      BlockTiles<Quants, kHasMin>(run, pass);
    }
  }
}

template <typename Quants>
void Nibbles(const GroupPass& pass) {
  if (pass.has_min) return BlockGroup<Quants, true>(pass);
  return BlockGroup<Quants, false>(pass);
}

}  // namespace
}  // namespace neon_dot

const MatMulTable kMatMulNeonDot = {{
    neon_dot::Super<neon_dot::SuperLayout<0, 32, true>>,
    neon_dot::Super<neon_dot::SuperLayout<1, 32, true>>,
    neon_dot::Super<neon_dot::SuperLayout<2, 16, false>>,
    neon_dot::Super<neon_dot::SuperLayout<0, 16, true>>,
    neon_dot::Nibbles<neon_dot::PackedQuants<0>>,
    neon_dot::Nibbles<neon_dot::PackedQuants<1>>,
    neon_dot::BlockGroup<neon_dot::ByteQuants, false>,
}};

}  // namespace tahmin::kernels
