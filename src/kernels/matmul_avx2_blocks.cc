// AVX2 kernels of the block layouts (Q4_0 ... Q8_0): weights d * quant (+ m) per 32 columns. As in
// the super layouts (matmul_avx2.cc) both halves of a row group share each broadcast of
// activations; the integer sums of a unit are registers, the float sums, one addition a unit, are
// memory.
#include <cstddef>
#include <cstdint>

#include "kernels/matmul_avx2-inl.h"

namespace tahmin::kernels {
namespace avx2 {
namespace {
namespace blocks {

// Nibbles fill a 16-bit sum with 32 columns, 5-bit quants with 16.
struct Q4Block {
  static constexpr int kPlaneBits = 0, kLinesPerSum = 4, kZeroPoint = kQ4BlockZeroPoint;
};
struct Q5Block {
  static constexpr int kPlaneBits = 1, kLinesPerSum = 2, kZeroPoint = kQ5BlockZeroPoint;
};

// A run of units (32 columns each), for one tile.
struct BlockRun {
  const uint8_t* halves;  // d [16], then m [16] with kHasMin, per unit
  const uint8_t* quants;
  const uint8_t* ahead;  // to prefetch, or null
  int64_t column;        // first column
  int32_t num_units;
  int32_t block_shift;  // log2 of the activation block
};

#ifdef TAHMIN_AVX_VNNI

// -zero point . x over unit u.
TAHMIN_INLINE Ints ZeroPointDot(int zero_point, const int16_t* sums16, int32_t u) {
  return _mm256_madd_epi16(_mm256_set1_epi16(static_cast<int16_t>(-zero_point)),
                           Broadcast4(sums16 + 2 * u));
}

// dots = (quants - zero point) . x over unit u.
template <typename L, typename Quants, int kZeroPoint, int R>
TAHMIN_INLINE void UnitDots(const uint8_t* quants, const int8_t* const (&x)[R],
                            const int16_t* const (&sums16)[R], int32_t u, Ints (&dots)[R][2]) {
  for (int r = 0; r < R; ++r) {
    dots[r][0] = dots[r][1] =
        kZeroPoint == 0 ? _mm256_setzero_si256() : ZeroPointDot(kZeroPoint, sums16[r], u);
  }
  AddLine<Quants, 0>(quants, x, u * kBlockColumns, dots);
  AddLine<Quants, 1>(quants, x, u * kBlockColumns, dots);
  AddLine<Quants, 2>(quants, x, u * kBlockColumns, dots);
  AddLine<Quants, 3>(quants, x, u * kBlockColumns, dots);
}

#else

// sums (+)= quants . x over one line (8 columns), in 16 bits.
template <typename Quants, bool kIsFirst, int kLine, int R>
TAHMIN_INLINE void AddLine(const uint8_t* quants, const int8_t* const (&x)[R], int64_t column,
                           Ints (&sums)[R][2]) {
  Ints even[2], odd[2];
  Quants::template Line<kLine>(quants, even, odd);
  AddQuad<kIsFirst>(even, x, column + 8 * kLine, sums);
  AddQuad<false>(odd, x, column + 8 * kLine + 4, sums);
}

// What the 16-bit sums of a unit start from: -zero point times the sums of its first and of its
// last 16 columns, one in each lane of a pair, and of these the ones in `mask`. A sum that has
// passed 16 bits on the way comes back: with quants q of at most 2 * zero point - 1, a lane ends
// within 8 * 127 * (2 z + 2 z - 1) = 31,496 for 32 columns of nibbles (z = 8) and within
// 16 * 127 * z = 32,512 for 16 columns of 5 bits (z = 16).
template <int kZeroPoint, int R>
TAHMIN_INLINE void StartSums(const int16_t* const (&sums16)[R], int32_t u, int32_t mask,
                             Ints (&sums)[R][2]) {
  for (int r = 0; r < R; ++r) {
    const Ints pair = _mm256_mullo_epi16(Broadcast4(sums16[r] + 2 * u),
                                         _mm256_set1_epi16(static_cast<int16_t>(-kZeroPoint)));
    sums[r][0] = mask == -1 ? pair : _mm256_and_si256(pair, _mm256_set1_epi32(mask));
    sums[r][1] = sums[r][0];
  }
}

// The same numbers in 32 bits: dots (+)= the two 16-bit sums of each lane.
template <bool kIsFirst, int R>
TAHMIN_INLINE void AddPairs(const Ints (&sums)[R][2], Ints (&dots)[R][2]) {
  for (int r = 0; r < R; ++r) {
    for (int half = 0; half < 2; ++half) {
      const Ints sum = _mm256_madd_epi16(sums[r][half], _mm256_set1_epi16(1));
      dots[r][half] = kIsFirst ? sum : _mm256_add_epi32(dots[r][half], sum);
      Pin(dots[r][half]);
    }
  }
}

template <typename L, typename Quants, int kZeroPoint, int R>
TAHMIN_INLINE void UnitDots(const uint8_t* quants, const int8_t* const (&x)[R],
                            const int16_t* const (&sums16)[R], int32_t u, Ints (&dots)[R][2]) {
  constexpr bool kStartsAtZero = kZeroPoint == 0, kIsOneSum = L::kLinesPerSum == 4;
  constexpr int32_t kFirstPair = 0xFFFF, kSecondPair = ~0xFFFF;
  const int64_t column = u * kBlockColumns;
  Ints sums[R][2];
  if constexpr (!kStartsAtZero) {
    StartSums<kZeroPoint>(sums16, u, kIsOneSum ? -1 : kFirstPair, sums);
  }
  AddLine<Quants, kStartsAtZero, 0>(quants, x, column, sums);
  AddLine<Quants, false, 1>(quants, x, column, sums);
  if constexpr (!kIsOneSum) {
    AddPairs<true>(sums, dots);
    if constexpr (!kStartsAtZero) StartSums<kZeroPoint>(sums16, u, kSecondPair, sums);
  }
  AddLine<Quants, !kIsOneSum && kStartsAtZero, 2>(quants, x, column, sums);
  AddLine<Quants, false, 3>(quants, x, column, sums);
  AddPairs<kIsOneSum>(sums, dots);
}

#endif  // TAHMIN_AVX_VNNI

// Where the numbers of a tile's activation rows are, as far as a run needs them.
template <int R>
struct TileRows {
  const int8_t* values[R];
  const int16_t* sums16[R];
  const float* scales[R];
  const float* scaled_sums[R];

  TAHMIN_INLINE TileRows Of(const BlockRun& run, const QuantizedRow* rows) {
    TileRows tile;
    for (int r = 0; r < R; ++r) {
      tile.values[r] = rows[r].values + run.column;
      tile.sums16[r] = rows[r].sums16 + run.column / 16;
      tile.scales[r] = rows[r].scales;
      tile.scaled_sums[r] = rows[r].scaled_sums + run.column / kBlockColumns;
    }
    return tile;
  }
};

// out += d * scale * dot (+ m * scaled sum) of one half of unit u; out: of that half.
template <bool kHasMin, int R>
TAHMIN_INLINE void FlushHalf(const BlockRun& run, const TileRows<R>& rows, int32_t u, int half,
                             const Ints (&dots)[R], float* out) {
  const uint8_t* halves = run.halves + u * (kHasMin ? 2 : 1) * kHalvesBytes + half * 2 * kHalfLanes;
  const int64_t block = (run.column + u * kBlockColumns) >> run.block_shift;
  const Floats d = LoadHalves(halves);
  Floats m;
  if constexpr (kHasMin) m = LoadHalves(halves + kHalvesBytes);
  for (int r = 0; r < R; ++r) {
    float* to = out + r * kLanes;
    const Floats scale = _mm256_broadcast_ss(rows.scales[r] + block);
    Floats sum =
        _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[r]), _mm256_mul_ps(d, scale), _mm256_load_ps(to));
    if constexpr (kHasMin) {
      sum = _mm256_fmadd_ps(m, _mm256_broadcast_ss(rows.scaled_sums[r] + u), sum);
    }
    _mm256_store_ps(to, sum);
  }
}

// What of the next units is brought near while unit u is worked on.
template <int kUnitBytes>
TAHMIN_INLINE void PrefetchUnit(const BlockRun& run, int32_t u) {
  if (run.ahead != nullptr) Prefetch(run.ahead + u * kUnitBytes, kUnitBytes);
}

template <typename L, typename Quants, bool kHasMin, int R>
TAHMIN_INLINE void BlockTile(const BlockRun& run, const QuantizedRow* rows, float* out) {
  constexpr int kUnitBytes = PackedQuants<L::kPlaneBits>::kBytes + (kHasMin ? 2 : 1) * kHalvesBytes;
  const TileRows<R> tile = TileRows<R>::Of(run, rows);
  for (int32_t u = 0; u < run.num_units; ++u) {
    PrefetchUnit<kUnitBytes>(run, u);
    Ints dots[R][2];
    UnitDots<L, Quants, kHasMin ? 0 : L::kZeroPoint>(run.quants + u * Quants::kBytes, tile.values,
                                                     tile.sums16, u, dots);
    for (int half = 0; half < 2; ++half) {
      Ints of_half[R];
      for (int r = 0; r < R; ++r) of_half[r] = dots[r][half];
      FlushHalf<kHasMin>(run, tile, u, half, of_half, out + half * kHalfLanes);
    }
  }
}

// dots += signed 8-bit weights . x over one quad (4 columns).
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

// One half after the other: with four products a weight to compute, shared broadcasts save little,
// and both halves do not fit the registers.
template <int R>
TAHMIN_INLINE void ByteTile(const BlockRun& run, const QuantizedRow* rows, float* out) {
  const TileRows<R> tile = TileRows<R>::Of(run, rows);
  for (int32_t u = 0; u < run.num_units; ++u) {
    PrefetchUnit<kByteQuantBytes + kHalvesBytes>(run, u);
    for (int half = 0; half < 2; ++half) {
      Ints dots[R];
      for (int r = 0; r < R; ++r) {
#ifdef TAHMIN_AVX_VNNI
        dots[r] = ZeroPointDot(128, tile.sums16[r], u);
#else
        dots[r] = _mm256_setzero_si256();
#endif
      }
      const uint8_t* quants = run.quants + u * kByteQuantBytes + half * kHalfBytes;
      for (int quad = 0; quad < 8; ++quad) {
        AddByteQuad(Load(quants + quad * kLineBytes), tile.values, u * kBlockColumns + 4 * quad,
                    dots);
      }
      FlushHalf<false>(run, tile, u, half, dots, out + half * kHalfLanes);
    }
  }
}

// All tiles of a run; only the first one prefetches.
template <typename L, typename Quants, bool kHasMin>
TAHMIN_INLINE void BlockTiles(BlockRun run, const GroupPass& pass, float* out) {
  int32_t row = 0;
  for (; row + kTileRows <= pass.num_rows; row += kTileRows) {
    BlockTile<L, Quants, kHasMin, kTileRows>(run, pass.rows + row, out + row * kLanes);
    run.ahead = nullptr;
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

TAHMIN_INLINE void ByteTiles(BlockRun run, const GroupPass& pass, float* out) {
  int32_t row = 0;
  for (; row + kTileRows <= pass.num_rows; row += kTileRows) {
    ByteTile<kTileRows>(run, pass.rows + row, out + row * kLanes);
    run.ahead = nullptr;
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

// Calls body(run) for every run of units.
template <int kUnitBytes, bool kHasMin, typename Body>
TAHMIN_INLINE void ForEachRun(const GroupPass& pass, Body body) {
  constexpr int kUnitHalves = (kHasMin ? 2 : 1) * kHalvesBytes;
  ClearOut(pass);
  const int32_t block_shift = __builtin_ctz(static_cast<unsigned>(pass.block));
  const int64_t num_units = pass.columns / kBlockColumns;
  for (int64_t u = 0; u < num_units; u += kRunUnits) {
    const int32_t count =
        static_cast<int32_t>(num_units - u < kRunUnits ? num_units - u : kRunUnits);
    body({.halves = pass.group + u * kUnitHalves,
          .quants = pass.group + pass.halves_bytes + u * kUnitBytes,
          .ahead = pass.group + kPrefetchBytes + u * (kUnitBytes + kUnitHalves),
          .column = u * kBlockColumns,
          .num_units = count,
          .block_shift = block_shift});
  }
}

template <typename L, bool kHasMin>
void NibbleGroup(const GroupPass& pass) {
  using Packed = PackedQuants<L::kPlaneBits>;
  alignas(kLineBytes) uint8_t unpacked[kRunUnits * kUnpackedBytes];
  ForEachRun<Packed::kBytes, kHasMin>(pass, [&](BlockRun run) {
    if (pass.num_rows > UnpackRows(L::kPlaneBits)) {
      UnpackQuants<L::kPlaneBits>(run.quants, run.num_units, unpacked);
      run.quants = unpacked;
      BlockTiles<L, UnpackedQuants, kHasMin>(run, pass, pass.out);
    } else {
      BlockTiles<L, Packed, kHasMin>(run, pass, pass.out);
    }
  });
}

template <typename L>
void Nibbles(const GroupPass& pass) {
  if (pass.has_min) return NibbleGroup<L, true>(pass);
  return NibbleGroup<L, false>(pass);
}

void Bytes(const GroupPass& pass) {
  ForEachRun<kByteQuantBytes, false>(pass,
                                     [&](const BlockRun& run) { ByteTiles(run, pass, pass.out); });
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
