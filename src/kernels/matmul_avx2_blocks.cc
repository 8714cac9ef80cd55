// AVX2 kernels of the block layouts (Q4_0 ... Q8_0): weights d * quant (+ m) per 32 columns. One
// half of a row group (8 rows) at a time, so that the float sums of a tile stay in registers from
// unit to unit; the super layouts, whose sums are integers for 256 columns, are in matmul_avx2.cc.
#include <cstddef>
#include <cstdint>

#include "kernels/matmul_avx2-inl.h"

namespace tahmin::kernels {
namespace avx2 {
namespace {
namespace blocks {

constexpr int kUnpackRows = 8;  // from more rows than this, quants are unpacked once for all tiles
constexpr int kUnpackedBytes = 8 * kHalfBytes;  // unpacked quants of 32 columns, one half

// Where a tile reads its quants: from the packed group, or from the scratch of UnpackQuants.
template <int kPlaneBits>
struct PackedQuants {
  static constexpr int kBytes = kNibbleBytes + kPlaneBits * kLineBytes;
  template <int kLine>
  TAHMIN_INLINE void Line(const uint8_t* quants, Ints& even, Ints& odd) {
    UnpackLine<kPlaneBits, kLine>(quants, even, odd);
  }
};

struct UnpackedQuants {
  static constexpr int kBytes = kUnpackedBytes;
  template <int kLine>
  TAHMIN_INLINE void Line(const uint8_t* quants, Ints& even, Ints& odd) {
    even = Load(quants + 2 * kLine * kHalfBytes);
    odd = Load(quants + (2 * kLine + 1) * kHalfBytes);
  }
};

template <int kPlaneBits, int kLine>
TAHMIN_INLINE void UnpackLineTo(const uint8_t* quants, uint8_t* out) {
  Ints even, odd;
  UnpackLine<kPlaneBits, kLine>(quants, even, odd);
  _mm256_store_si256(reinterpret_cast<Ints*>(out + 2 * kLine * kHalfBytes), even);
  _mm256_store_si256(reinterpret_cast<Ints*>(out + (2 * kLine + 1) * kHalfBytes), odd);
}

template <int kPlaneBits>
void UnpackQuants(const uint8_t* quants, int num_blocks, uint8_t* out) {
  for (int i = 0; i < num_blocks; ++i) {
    UnpackLineTo<kPlaneBits, 0>(quants, out);
    UnpackLineTo<kPlaneBits, 1>(quants, out);
    UnpackLineTo<kPlaneBits, 2>(quants, out);
    UnpackLineTo<kPlaneBits, 3>(quants, out);
    quants += PackedQuants<kPlaneBits>::kBytes;
    out += kUnpackedBytes;
  }
}

// dots[r] += quants . x[r] over one line (8 columns); `sums` are the open 16-bit sums.
template <typename Quants, int kLinesPerSum, int kLine, int R>
TAHMIN_INLINE void AddLine(const uint8_t* quants, const int8_t* const (&x)[R], int64_t column,
                           Ints (&sums)[R], Ints (&dots)[R]) {
  Ints even, odd;
  Quants::template Line<kLine>(quants, even, odd);
  for (int r = 0; r < R; ++r) {
    const Ints first = Broadcast4(x[r] + column + 8 * kLine);
    const Ints second = Broadcast4(x[r] + column + 8 * kLine + 4);
#ifdef TAHMIN_AVX_VNNI
    dots[r] = AddDot(AddDot(dots[r], even, first), odd, second);
    Pin(dots[r]);
#else
    const Ints both =
        _mm256_add_epi16(_mm256_maddubs_epi16(even, first), _mm256_maddubs_epi16(odd, second));
    sums[r] = kLine % kLinesPerSum == 0 ? both : _mm256_add_epi16(sums[r], both);
    if (kLine % kLinesPerSum == kLinesPerSum - 1) {
      dots[r] = _mm256_add_epi32(dots[r], _mm256_madd_epi16(sums[r], _mm256_set1_epi16(1)));
      Pin(dots[r]);
    } else {
      Pin(sums[r]);
    }
#endif
  }
}

// The same over 32 columns.
template <typename Quants, int kLinesPerSum, int R>
TAHMIN_INLINE void AddQuants(const uint8_t* quants, const int8_t* const (&x)[R], int64_t column,
                             Ints (&dots)[R]) {
  Ints sums[R];
  AddLine<Quants, kLinesPerSum, 0>(quants, x, column, sums, dots);
  AddLine<Quants, kLinesPerSum, 1>(quants, x, column, sums, dots);
  AddLine<Quants, kLinesPerSum, 2>(quants, x, column, sums, dots);
  AddLine<Quants, kLinesPerSum, 3>(quants, x, column, sums, dots);
}

// ---- Block layouts -----------------------------------------------------------------------------

struct Q4Block {
  static constexpr int kPlaneBits = 0, kLinesPerSum = 4;
};
struct Q5Block {
  static constexpr int kPlaneBits = 1, kLinesPerSum = 2;
};

// A run of units (32 columns each) of one half, for one tile.
struct BlockRun {
  const uint8_t* halves;  // d [16], then m [16] with kHasMin, per unit
  const uint8_t* quants;
  int64_t column;  // first column
  int32_t num_units;
  int32_t block_shift;  // log2 of the activation block
  Ints zero_points;     // 16-bit pairs
};

// out[r] += d * scale * dot (+ m * scaled sum) of unit u.
template <bool kHasMin, int R>
TAHMIN_INLINE void FlushUnit(const BlockRun& run, const QuantizedRow* rows, int32_t u,
                             const Ints (&dots)[R], Floats (&out)[R]) {
  const int64_t column = run.column + u * kBlockColumns;
  const uint8_t* halves = run.halves + u * (kHasMin ? 2 : 1) * kHalvesBytes;
  const Floats d = LoadHalves(halves);
  for (int r = 0; r < R; ++r) {
    const Floats scale = _mm256_broadcast_ss(rows[r].scales + (column >> run.block_shift));
    out[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[r]), _mm256_mul_ps(d, scale), out[r]);
    if constexpr (kHasMin) {
      const Floats m = LoadHalves(halves + kHalvesBytes);
      const Floats sum = _mm256_broadcast_ss(rows[r].scaled_sums + column / kBlockColumns);
      out[r] = _mm256_fmadd_ps(m, sum, out[r]);
    }
  }
}

// -(zero point) . x over unit u; zero_points: 16-bit pairs.
TAHMIN_INLINE Ints ZeroPointDot(Ints zero_points, const BlockRun& run, const QuantizedRow& row,
                                int32_t u) {
  const Ints sums = Broadcast4(row.sums16 + (run.column + u * kBlockColumns) / 16);
  return _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_madd_epi16(zero_points, sums));
}

template <typename L, typename Quants, bool kHasMin, int R>
TAHMIN_INLINE void BlockTile(const BlockRun& run, const QuantizedRow* rows, float* out) {
  const int8_t* x[R];
  Floats sums[R];
  for (int r = 0; r < R; ++r) {
    x[r] = rows[r].values + run.column;
    sums[r] = _mm256_load_ps(out + r * kLanes);
  }
  for (int32_t u = 0; u < run.num_units; ++u) {
    Ints dots[R];
    for (int r = 0; r < R; ++r) {
      dots[r] = kHasMin ? _mm256_setzero_si256() : ZeroPointDot(run.zero_points, run, rows[r], u);
    }
    AddQuants<Quants, L::kLinesPerSum>(run.quants + u * Quants::kBytes, x, u * kBlockColumns, dots);
    FlushUnit<kHasMin>(run, rows, u, dots, sums);
  }
  for (int r = 0; r < R; ++r) _mm256_store_ps(out + r * kLanes, sums[r]);
}

// dots[r] += signed 8-bit weights . x[r] over one quad (4 columns).
template <int R>
TAHMIN_INLINE void AddByteQuad(Ints weights, const int8_t* const (&x)[R], int64_t column,
                               Ints (&dots)[R]) {
#ifdef TAHMIN_AVX_VNNI  // weights plus 128; ByteTile starts from the zero point
  const Ints unsigned_weights = _mm256_xor_si256(weights, _mm256_set1_epi8(-128));
  for (int r = 0; r < R; ++r) {
    dots[r] = AddDot(dots[r], unsigned_weights, Broadcast4(x[r] + column));
    Pin(dots[r]);
  }
#else  // |w| times the activation with w's sign
  const Ints magnitudes = _mm256_abs_epi8(weights);
  for (int r = 0; r < R; ++r) {
    const Ints values = Broadcast4(x[r] + column);
    const Ints pairs = _mm256_maddubs_epi16(magnitudes, _mm256_sign_epi8(values, weights));
    dots[r] = _mm256_add_epi32(dots[r], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    Pin(dots[r]);
  }
#endif
}

template <int R>
TAHMIN_INLINE void ByteTile(const BlockRun& run, const QuantizedRow* rows, float* out) {
  const int8_t* x[R];
  Floats sums[R];
  for (int r = 0; r < R; ++r) {
    x[r] = rows[r].values + run.column;
    sums[r] = _mm256_load_ps(out + r * kLanes);
  }
  for (int32_t u = 0; u < run.num_units; ++u) {
    Ints dots[R];
    for (int r = 0; r < R; ++r) {
#ifdef TAHMIN_AVX_VNNI
      dots[r] = ZeroPointDot(_mm256_set1_epi16(128), run, rows[r], u);
#else
      dots[r] = _mm256_setzero_si256();
#endif
    }
    const uint8_t* quants = run.quants + u * kByteQuantBytes;
    for (int quad = 0; quad < 8; ++quad) {
      AddByteQuad(Load(quants + quad * kLineBytes), x, u * kBlockColumns + 4 * quad, dots);
    }
    FlushUnit<false>(run, rows, u, dots, sums);
  }
  for (int r = 0; r < R; ++r) _mm256_store_ps(out + r * kLanes, sums[r]);
}

template <typename L, typename Quants, bool kHasMin>
TAHMIN_INLINE void BlockTiles(const BlockRun& run, const GroupPass& pass, float* out) {
  int32_t row = 0;
  for (; row + kTileRows <= pass.num_rows; row += kTileRows) {
    BlockTile<L, Quants, kHasMin, kTileRows>(run, pass.rows + row, out + row * kLanes);
  }
  const QuantizedRow* rest = pass.rows + row;
  out += row * kLanes;
  switch (pass.num_rows - row) {
    case 3:
      return BlockTile<L, Quants, kHasMin, 3>(run, rest, out);
    case 2:
      return BlockTile<L, Quants, kHasMin, 2>(run, rest, out);
    case 1:
      return BlockTile<L, Quants, kHasMin, 1>(run, rest, out);
    default:
      return;
  }
}

TAHMIN_INLINE void ByteTiles(const BlockRun& run, const GroupPass& pass, float* out) {
  int32_t row = 0;
  for (; row + kTileRows <= pass.num_rows; row += kTileRows) {
    ByteTile<kTileRows>(run, pass.rows + row, out + row * kLanes);
  }
  const QuantizedRow* rest = pass.rows + row;
  out += row * kLanes;
  switch (pass.num_rows - row) {
    case 3:
      return ByteTile<3>(run, rest, out);
    case 2:
      return ByteTile<2>(run, rest, out);
    case 1:
      return ByteTile<1>(run, rest, out);
    default:
      return;
  }
}

constexpr int kRunUnits = 8;  // units per tile call: 256 columns

// Calls body(run, out of the half) for every run of units and both halves, prefetching ahead.
template <int kUnitBytes, bool kHasMin, typename Body>
TAHMIN_INLINE void ForEachRun(const GroupPass& pass, Body body) {
  constexpr int kUnitHalves = (kHasMin ? 2 : 1) * kHalvesBytes;
  ClearOut(pass);
  const int32_t block_shift = __builtin_ctz(static_cast<unsigned>(pass.block));
  const Ints zero_points = _mm256_set1_epi16(static_cast<int16_t>(pass.zero_point));
  const uint8_t* ahead = pass.group + kPrefetchBytes;
  const int64_t num_units = pass.columns / kBlockColumns;
  for (int64_t u = 0; u < num_units; u += kRunUnits) {
    const int32_t count =
        static_cast<int32_t>(num_units - u < kRunUnits ? num_units - u : kRunUnits);
    const uint8_t* halves = pass.group + u * kUnitHalves;
    const uint8_t* bytes = pass.group + pass.halves_bytes + u * kUnitBytes;
    for (int half = 0; half < 2; ++half) {
      const int64_t ahead_bytes = count * (kUnitBytes + kUnitHalves) / 2;
      Prefetch(ahead, ahead_bytes);
      ahead += ahead_bytes;
      const BlockRun run{halves + half * 16, bytes + half * kHalfBytes,
                         u * kBlockColumns,  count,
                         block_shift,        zero_points};
      body(run, pass.out + half * 8);
    }
  }
}

template <typename L, bool kHasMin>
void NibbleGroup(const GroupPass& pass) {
  using Packed = PackedQuants<L::kPlaneBits>;
  alignas(kHalfBytes) uint8_t unpacked[kRunUnits * kUnpackedBytes];
  ForEachRun<Packed::kBytes, kHasMin>(pass, [&](BlockRun run, float* out) {
    if (pass.num_rows > kUnpackRows) {
      UnpackQuants<L::kPlaneBits>(run.quants, run.num_units, unpacked);
      run.quants = unpacked;
      BlockTiles<L, UnpackedQuants, kHasMin>(run, pass, out);
    } else {
      BlockTiles<L, Packed, kHasMin>(run, pass, out);
    }
  });
}

template <typename L>
void Nibbles(const GroupPass& pass) {
  if (pass.has_min) return NibbleGroup<L, true>(pass);
  return NibbleGroup<L, false>(pass);
}

void Bytes(const GroupPass& pass) {
  ForEachRun<kByteQuantBytes, false>(
      pass, [&](const BlockRun& run, float* out) { ByteTiles(run, pass, out); });
}

}  // namespace blocks
}  // namespace
}  // namespace avx2

void MatMulQ4BlockAvx2(const GroupPass& pass) {
  avx2::blocks::Nibbles<avx2::blocks::Q4Block>(pass);
}
void MatMulQ5BlockAvx2(const GroupPass& pass) {
  avx2::blocks::Nibbles<avx2::blocks::Q5Block>(pass);
}
void MatMulQ8BlockAvx2(const GroupPass& pass) { avx2::blocks::Bytes(pass); }

}  // namespace tahmin::kernels
