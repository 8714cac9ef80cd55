// What the NEON kernels of the super and of the block layouts share, for Arm CPUs with the dot
// product (Armv8.2 SDOT). A line of 16 weight rows is four registers ("quarters") of 4 rows; 16
// activations of a row are one register, of which SDOT takes 4 by lane number: no broadcasts. All
// quants fit a signed byte, and SDOT adds into 32 bits without saturation. A tile of R activation
// rows and Q quarters holds R * Q <= 8 accumulators of each kind in the 32 registers: few rows take
// all quarters of a line at once, eight rows one quarter after the other, so that each unpacked
// register serves all rows. The order of float operations depends on (layout, activation block)
// alone, never on the tile.
//
// Included by matmul_neon_dot.cc and matmul_neon_dot_blocks.cc alone, which are compiled with the
// same flags. All but the three kernels declared first is static in a namespace without a name: no
// copy can serve another unit.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/matmul_tables.h"

#define TAHMIN_INLINE static inline __attribute__((always_inline))

namespace tahmin::kernels {
namespace neon_dot {

// The kernels of the block layouts, for the table in matmul_neon_dot.cc.
void MatMulQ4Block(const GroupPass& pass);
void MatMulQ5Block(const GroupPass& pass);
void MatMulQ8Block(const GroupPass& pass);

namespace {

using Ints = int32x4_t;
using Floats = float32x4_t;

constexpr int kQuarterBytes = 16;               // one quarter of a line
constexpr int kQuarterLanes = 4;                // weight rows of one quarter
constexpr int kMaxTileRows = 8;                 // activation rows that share a weight register
constexpr int kUnpackedBytes = 8 * kLineBytes;  // unpacked quants of 32 columns
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

}  // namespace
}  // namespace neon_dot
}  // namespace tahmin::kernels
