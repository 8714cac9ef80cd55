// AVX-512 VNNI kernels of the block layouts (Q4_0 ... Q8_0): weights d * quant (+ m) per 32
// columns. The float sums of a tile stay in registers from unit to unit, over a run of 256 columns;
// the super layouts, whose sums are integers for an activation block, are in matmul_avx512_vnni.cc.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/matmul_avx512_vnni-inl.h"

namespace tahmin::kernels {
namespace avx512_vnni {
namespace {

constexpr int kRunUnits = 8;  // units per tile call: 256 columns

// Signed weights become unsigned by adding 128, which is the zero point of the pass.
struct ByteQuants {
  static constexpr int kPlaneBits = 0;
  static constexpr int kBytes = kByteQuantBytes;
  static constexpr int kPackedBytes = kBytes;

  template <int kLine>
  TAHMIN_INLINE void Line(const uint8_t* quants, Ints& even, Ints& odd) {
    const Ints top_bit = _mm512_set1_epi8(static_cast<char>(-128));
    even = _mm512_xor_si512(Load(quants + 2 * kLine * kLineBytes), top_bit);
    odd = _mm512_xor_si512(Load(quants + (2 * kLine + 1) * kLineBytes), top_bit);
  }
};

// A run of units (32 columns each), for one tile.
struct BlockRun {
  const uint8_t* halves;  // d [16], then m [16] with kHasMin, per unit
  const uint8_t* quants;
  const uint8_t* ahead;  // to prefetch, or null
  int64_t column;        // first column
  int32_t num_units;
  int32_t block_shift;  // log2 of the activation block
  int32_t zero_point;
};

// The numbers of each row and unit of a run, copied together: a tile of eight rows has no registers
// left for the pointers to them.
template <int R>
struct RunFactors {
  float scales[R][kRunUnits];
  float sums[R][kRunUnits];      // with minima: scaled activation sums
  int32_t starts[R][kRunUnits];  // without: what the integer sums start at
};

template <bool kHasMin, int R>
TAHMIN_INLINE void GatherFactors(const BlockRun& run, const QuantizedRow* rows, int32_t num_units,
                                 RunFactors<R>& factors) {
  const int64_t unit = run.column / kBlockColumns;
  const size_t num_bytes = static_cast<size_t>(num_units) * sizeof(float);
  const int shift = run.block_shift - __builtin_ctz(kBlockColumns);
  for (int r = 0; r < R; ++r) {
    if constexpr (kHasMin) {
      __builtin_memcpy(factors.sums[r], rows[r].scaled_sums + unit, num_bytes);
    } else {
      for (int32_t u = 0; u < num_units; ++u) {
        factors.starts[r][u] = -run.zero_point * rows[r].sums32[unit + u];
      }
    }
    if (shift == 0) {
      __builtin_memcpy(factors.scales[r], rows[r].scales + unit, num_bytes);
    } else {
      for (int32_t u = 0; u < num_units; ++u) {
        factors.scales[r][u] = rows[r].scales[(unit + u) >> shift];
      }
    }
  }
}

// out[r] += d * scale * dot (+ m * scaled sum) of unit u.
template <bool kHasMin, int R, int C>
TAHMIN_INLINE void FlushUnit(const uint8_t* halves, const RunFactors<R>& factors, int32_t u,
                             const Ints (&dots)[R][C], Floats (&out)[R]) {
  const Floats d = LoadHalves(halves);
  TAHMIN_UNROLL
  for (int r = 0; r < R; ++r) {
    const Floats scale = _mm512_set1_ps(factors.scales[r][u]);
    out[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(Total(dots[r])), _mm512_mul_ps(d, scale), out[r]);
    if constexpr (kHasMin) {
      const Floats m = LoadHalves(halves + kHalvesBytes);
      out[r] = _mm512_fmadd_ps(m, _mm512_set1_ps(factors.sums[r][u]), out[r]);
    }
  }
}

template <typename Quants, bool kHasMin, int R>
__attribute__((noinline)) void BlockTile(const BlockRun& run, const QuantizedRow* rows,
                                         float* out) {
  constexpr int kUnitHalves = (kHasMin ? 2 : 1) * kHalvesBytes;
  RunFactors<R> factors;
  if (run.num_units == kRunUnits) {
    GatherFactors<kHasMin>(run, rows, kRunUnits, factors);
  } else {
    GatherFactors<kHasMin>(run, rows, run.num_units, factors);
  }
  const int8_t* x[R];
  Floats sums[R];
  TAHMIN_UNROLL
  for (int r = 0; r < R; ++r) {
    x[r] = rows[r].values + run.column;
    sums[r] = _mm512_loadu_ps(out + r * kLanes);
  }
  const uint8_t* quants = run.quants;
  const uint8_t* halves = run.halves;
  const uint8_t* ahead = run.ahead;
  for (int32_t u = 0; u < run.num_units; ++u) {
    if (ahead != nullptr) {
      Prefetch(ahead, Quants::kPackedBytes + kUnitHalves);
      ahead += Quants::kPackedBytes + kUnitHalves;
    }
    Ints dots[R][Chains(R)];
    Clear(dots);
    if constexpr (!kHasMin) {
      TAHMIN_UNROLL
      for (int r = 0; r < R; ++r) dots[r][0] = _mm512_set1_epi32(factors.starts[r][u]);
    }
    AddTwoLines<Quants, 0>(quants, x, 0, dots);
    AddTwoLines<Quants, 2>(quants, x, 0, dots);
    FlushUnit<kHasMin>(halves, factors, u, dots, sums);
    TAHMIN_UNROLL
    for (int r = 0; r < R; ++r) x[r] += kBlockColumns;
    quants += Quants::kBytes;
    halves += kUnitHalves;
  }
  TAHMIN_UNROLL
  for (int r = 0; r < R; ++r) _mm512_storeu_ps(out + r * kLanes, sums[r]);
}

template <typename Quants, bool kHasMin>
TAHMIN_INLINE void BlockTiles(const GroupPass& pass, BlockRun& run) {
  ForEachTile(pass.num_rows, [&](auto tile, int32_t row) {
    BlockTile<Quants, kHasMin, decltype(tile)::kRows>(run, pass.rows + row,
                                                      pass.out + row * kLanes);
    run.ahead = nullptr;
  });
}

template <typename Packed, bool kHasMin>
void BlockGroup(const GroupPass& pass, int32_t zero_point) {
  constexpr int kUnitHalves = (kHasMin ? 2 : 1) * kHalvesBytes;
  ClearOut(pass);
  const int32_t block_shift = __builtin_ctz(static_cast<unsigned>(pass.block));
  const uint8_t* ahead = pass.group + pass.halves_bytes + kPrefetchBytes;
  const int64_t num_units = pass.columns / kBlockColumns;
  for (int64_t u = 0; u < num_units; u += kRunUnits) {
    BlockRun run{pass.group + u * kUnitHalves,
                 pass.group + pass.halves_bytes + u * Packed::kBytes,
                 ahead + u * (Packed::kBytes + kUnitHalves),
                 u * kBlockColumns,
                 static_cast<int32_t>(num_units - u < kRunUnits ? num_units - u : kRunUnits),
                 block_shift,
                 zero_point};
    if constexpr (Packed::kPlaneBits > 0) {
      if (pass.num_rows >= kUnpackedRows) {
        alignas(kLineBytes) uint8_t unpacked[kRunUnits * kUnpackedBytes];
        UnpackQuants<Packed>(run.quants, run.num_units, unpacked);
        run.quants = unpacked;
        BlockTiles<UnpackedQuants<Packed>, kHasMin>(pass, run);
        continue;
      }
    }
    BlockTiles<Packed, kHasMin>(pass, run);
  }
}

template <typename Packed>
void Nibbles(const GroupPass& pass) {
  if (pass.has_min) return BlockGroup<Packed, true>(pass, 0);
  return BlockGroup<Packed, false>(pass, pass.zero_point);
}

}  // namespace

void MatMulQ4Block(const GroupPass& pass) { Nibbles<PackedQuants<0>>(pass); }
void MatMulQ5Block(const GroupPass& pass) { Nibbles<PackedQuants<1>>(pass); }
void MatMulQ8Block(const GroupPass& pass) { BlockGroup<ByteQuants, false>(pass, 128); }

}  // namespace avx512_vnni
}  // namespace tahmin::kernels
