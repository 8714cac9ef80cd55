// NEON dot product kernels of the block layouts (Q4_0 ... Q8_0): weights d * quant (+ m) per 32
// columns. The float sums of a tile stay in registers from unit to unit, over a run of 256 columns;
// the super layouts, whose sums are integers for an activation block, are in matmul_neon_dot.cc.
#include <arm_neon.h>

#include <cstdint>

#include "kernels/matmul_neon_dot-inl.h"

namespace tahmin::kernels {
namespace neon_dot {
namespace {

constexpr int kRunUnits = 8;  // units per tile call: 256 columns

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

void MatMulQ4Block(const GroupPass& pass) { Nibbles<PackedQuants<0>>(pass); }
void MatMulQ5Block(const GroupPass& pass) { Nibbles<PackedQuants<1>>(pass); }
void MatMulQ8Block(const GroupPass& pass) { BlockGroup<ByteQuants, false>(pass); }

}  // namespace neon_dot
}  // namespace tahmin::kernels
