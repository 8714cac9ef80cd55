// AVX-512 VNNI kernels of the super layouts (K types), and the table of all. Sums stay integers for
// an activation block; its float sum waits in pass.out, so that the sums of eight rows fit the 32
// registers. The block layouts, whose float sums stay in registers from unit to unit, are in
// matmul_avx512_vnni_blocks.cc; what both share, and what the instructions cost, is in
// matmul_avx512_vnni-inl.h.
#include <immintrin.h>

#include <cstdint>

#include "kernels/matmul_avx512_vnni-inl.h"

namespace tahmin::kernels {
namespace avx512_vnni {
namespace {

// Bytes of each lane, by index (-1: zero).
constexpr int32_t LaneBytes(int lane, int b0, int b1, int b2, int b3) {
  const int bytes[4] = {b0, b1, b2, b3};
  uint32_t index = 0;
  for (int i = 0; i < 4; ++i) {
    index |= static_cast<uint32_t>(bytes[i] < 0 ? 128 : 4 * lane + bytes[i]) << 8 * i;
  }
  return static_cast<int32_t>(index);
}
template <int b0, int b1, int b2, int b3>
TAHMIN_INLINE Ints ShuffleLanes(Ints values) {
  constexpr int32_t k0 = LaneBytes(0, b0, b1, b2, b3), k1 = LaneBytes(1, b0, b1, b2, b3);
  constexpr int32_t k2 = LaneBytes(2, b0, b1, b2, b3), k3 = LaneBytes(3, b0, b1, b2, b3);
  return _mm512_shuffle_epi8(values, _mm512_set4_epi32(k3, k2, k1, k0));
}

// Of each lane's pair of 16-bit scales the first or the second one, s, as the pair (s, 256 s).
TAHMIN_INLINE Ints First(Ints pairs) { return ShuffleLanes<0, 1, -1, 0>(pairs); }
TAHMIN_INLINE Ints Second(Ints pairs) { return ShuffleLanes<2, 3, -1, 2>(pairs); }

// dots += sums * s, lane by lane, for sums of at most 24 bits; clears sums. As the pair (lowest
// byte, bits 8 to 23) a sum takes one pair dot, where a 32-bit product would take two
// multiplications and an addition.
template <int R, int C>
TAHMIN_INLINE void AddScaled(Ints scale, Ints (&sums)[R][C], Ints (&dots)[R][1]) {
  TAHMIN_UNROLL
  for (int r = 0; r < R; ++r) {
    const Ints parts = ShuffleLanes<0, -1, 1, 2>(Total(sums[r]));
    dots[r][0] = _mm512_dpwssd_epi32(dots[r][0], parts, scale);
  }
  Clear(sums);
}

template <int kPlaneBitsOf, int kScaleColumnsOf, bool kHasMinOf>
struct SuperLayout {
  static constexpr int kScaleColumns = kScaleColumnsOf, kPairColumns = 2 * kScaleColumns;
  static constexpr bool kHasMin = kHasMinOf;
  static constexpr int kScaleBytes = kSuperColumns / kScaleColumns * kLanes;
  static constexpr int kMinBytes = kHasMin ? kScaleBytes : 0;
  using Packed = PackedQuants<kPlaneBitsOf>;
  static constexpr int kNumRuns = kSuperColumns / kBlockColumns;
  static constexpr int kUnitBytes = kScaleBytes + kMinBytes + kNumRuns * Packed::kBytes;
  static constexpr int kUnitHalves = (kHasMin ? 2 : 1) * kHalvesBytes;
};

struct SuperUnit {
  const uint8_t* halves;  // d, then m
  const uint8_t* scales;
  const uint8_t* mins;
  const uint8_t* quants;
  const uint8_t* ahead;  // to prefetch, or null
  int64_t column;        // first column
  int32_t block;         // activation columns that share one scale; a power of two
};

template <typename L>
TAHMIN_INLINE Ints LoadPairs(const uint8_t* scales, int pair) {
  const __m256i bytes =
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales + pair * 2 * kLanes));
  return L::kHasMin ? _mm512_cvtepu8_epi16(bytes) : _mm512_cvtepi8_epi16(bytes);
}

// totals += min times the activation sums of one pair of scales: 16-bit pair dots.
template <typename L, int R>
TAHMIN_INLINE void AddMinDots(const SuperUnit& unit, const QuantizedRow* rows, int pair, Ints pairs,
                              Ints (&totals)[R][1]) {
  const int64_t at = unit.column / L::kScaleColumns + 2 * pair;
  TAHMIN_UNROLL
  for (int r = 0; r < R; ++r) {
    const int16_t* sums = L::kScaleColumns == 16 ? rows[r].sums16 : rows[r].sums32;
    AddPairDot(totals[r][0], pairs, sums + at);
  }
}

// out += scale of an activation block * (d * dots - m * min dots).
template <typename L, int R>
TAHMIN_INLINE void AddToOut(const SuperUnit& unit, const QuantizedRow* rows, int64_t block,
                            const Ints (&dots)[R][1], const Ints (&min_dots)[R][1], float* out) {
  const Floats d = LoadHalves(unit.halves);
  TAHMIN_UNROLL
  for (int r = 0; r < R; ++r) {
    const Floats scale = _mm512_set1_ps(rows[r].scales[block]);
    Floats sum = _mm512_loadu_ps(out + r * kLanes);
    sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[r][0]), _mm512_mul_ps(d, scale), sum);
    if constexpr (L::kHasMin) {
      const Floats m = LoadHalves(unit.halves + kHalvesBytes);
      sum = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(min_dots[r][0]), _mm512_mul_ps(m, scale), sum);
    }
    _mm512_storeu_ps(out + r * kLanes, sum);
  }
}

// Adds the dots of the activation block that starts at `column` of the unit to out, and clears
// them. Not inlined: the registers of the tile are its own.
template <typename L, int R>
__attribute__((noinline)) void FlushPart(const SuperUnit& unit, const QuantizedRow* rows,
                                         int column, const Ints (&dots)[R][1], float* out) {
  Ints min_dots[R][1];
  Clear(min_dots);
  if constexpr (L::kHasMin) {
    const int first = column / L::kPairColumns;
    const int num_pairs = unit.block < L::kPairColumns ? 1 : unit.block / L::kPairColumns;
    int32_t mask = -1;  // of a pair that spans two activation blocks, one counts
    if (unit.block < L::kPairColumns) mask = column % L::kPairColumns != 0 ? -65536 : 65535;
    for (int pair = first; pair < first + num_pairs; ++pair) {
      const Ints pairs = _mm512_and_si512(LoadPairs<L>(unit.mins, pair), _mm512_set1_epi32(mask));
      AddMinDots<L>(unit, rows, pair, pairs, min_dots);
    }
  }
  const int block_shift = __builtin_ctz(static_cast<unsigned>(unit.block));
  AddToOut<L>(unit, rows, (unit.column + column) >> block_shift, dots, min_dots, out);
}
template <typename L, int R>
TAHMIN_INLINE void FlushPartAndClear(const SuperUnit& unit, const QuantizedRow* rows, int column,
                                     Ints (&dots)[R][1], float* out) {
  Ints copy[R][1];
  TAHMIN_UNROLL
  for (int r = 0; r < R; ++r) copy[r][0] = dots[r][0];
  FlushPart<L>(unit, rows, column, copy, out);
  Clear(dots);
}

// The same where the unit is one activation block.
template <typename L, int R>
TAHMIN_INLINE void FlushUnit(const SuperUnit& unit, const QuantizedRow* rows,
                             const Ints (&dots)[R][1], float* out) {
  Ints min_dots[R][1];
  Clear(min_dots);
  if constexpr (L::kHasMin) {
    TAHMIN_UNROLL
    for (int pair = 0; pair < kSuperColumns / L::kPairColumns; ++pair) {
      AddMinDots<L>(unit, rows, pair, LoadPairs<L>(unit.mins, pair), min_dots);
    }
  }
  AddToOut<L>(unit, rows, unit.column / kSuperColumns, dots, min_dots, out);
}

// dots += scale * (quants . x) over the kPart'th 32 of 64 columns, which start at `column` of the
// unit and whose quants and scales are given. Without minima 32, the zero point of such quants, is
// subtracted from them: -32 * scale times the activation sums.
template <typename L, typename Quants, int kPart, int R>
TAHMIN_INLINE void AddRun(const SuperUnit& unit, const QuantizedRow* rows, const uint8_t* quants,
                          const uint8_t* scales, const int8_t* const (&x)[R], int column,
                          Ints (&dots)[R][1]) {
  quants += kPart * Quants::kBytes;
  column += kPart * kBlockColumns;
  const Ints pairs = LoadPairs<L>(scales, kPart * kBlockColumns / L::kPairColumns);
  Ints sums[R][Chains(R)];
  Clear(sums);
  AddTwoLines<Quants, 0>(quants, x, column, sums);
  if constexpr (L::kScaleColumns == 16) AddScaled(First(pairs), sums, dots);
  if constexpr (!L::kHasMin) {
    // Hidden from GCC 12: it would make two instructions of the product, and keep the rows'
    // pointers over the loop in vector registers, whose way back takes a port of arithmetic.
    const Ints zero_point = InRegister(_mm512_set1_epi16(-32));
    __asm__("" : "+r"(rows));
    AddMinDots<L>(unit, rows, column / L::kPairColumns, _mm512_mullo_epi16(pairs, zero_point),
                  dots);
  }
  AddTwoLines<Quants, 2>(quants, x, column, sums);
  const bool is_first = L::kScaleColumns == 32 && kPart == 0;
  AddScaled(is_first ? First(pairs) : Second(pairs), sums, dots);
}

// out[r] += unit . rows[r].
template <typename L, typename Quants, int R>
__attribute__((noinline)) void SuperTile(const SuperUnit& unit, const QuantizedRow* rows,
                                         float* out) {
  constexpr int kAheadBytes = (L::kUnitBytes + L::kUnitHalves) / 4;
  const int block = unit.block;
  const uint8_t* quants = unit.quants;
  const uint8_t* scales = unit.scales;
  const uint8_t* ahead = unit.ahead;
  const int8_t* x[R];
  TAHMIN_UNROLL
  for (int r = 0; r < R; ++r) x[r] = rows[r].values + unit.column;
  Ints dots[R][1];
  Clear(dots);
  for (int column = 0; column < kSuperColumns; column += 64) {
    if (ahead != nullptr) {
      Prefetch(ahead, kAheadBytes);
      ahead += kAheadBytes;
    }
    AddRun<L, Quants, 0>(unit, rows, quants, scales, x, column, dots);
    if (block == 32) FlushPartAndClear<L>(unit, rows, column, dots, out);
    AddRun<L, Quants, 1>(unit, rows, quants, scales, x, column, dots);
    if (block < kSuperColumns && ((column + 64) & (block - 1)) == 0) {
      FlushPartAndClear<L>(unit, rows, column + 64 - block, dots, out);
    }
    quants += 2 * Quants::kBytes;
    scales += 64 / L::kScaleColumns * kLanes;
  }
  if (block == kSuperColumns) FlushUnit<L>(unit, rows, dots, out);
}

template <typename L, typename Quants>
TAHMIN_INLINE void SuperTiles(const GroupPass& pass, SuperUnit& unit) {
  ForEachTile(pass.num_rows, [&](auto tile, int32_t row) {
    SuperTile<L, Quants, decltype(tile)::kRows>(unit, pass.rows + row, pass.out + row * kLanes);
    unit.ahead = nullptr;
  });
}

template <typename L>
void Super(const GroupPass& pass) {
  using Packed = typename L::Packed;
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
    if constexpr (Packed::kPlaneBits > 0) {
      if (pass.num_rows >= kUnpackedRows) {
        alignas(kLineBytes) uint8_t unpacked[L::kNumRuns * kUnpackedBytes];
        UnpackQuants<Packed>(unit.quants, L::kNumRuns, unpacked);
        unit.quants = unpacked;
        SuperTiles<L, UnpackedQuants<Packed>>(pass, unit);
        continue;
      }
    }
    SuperTiles<L, Packed>(pass, unit);
  }
}

}  // namespace
}  // namespace avx512_vnni

const MatMulTable kMatMulAvx512Vnni = {{
    avx512_vnni::Super<avx512_vnni::SuperLayout<0, 32, true>>,
    avx512_vnni::Super<avx512_vnni::SuperLayout<1, 32, true>>,
    avx512_vnni::Super<avx512_vnni::SuperLayout<2, 16, false>>,
    avx512_vnni::Super<avx512_vnni::SuperLayout<0, 16, true>>,
    avx512_vnni::MatMulQ4Block,
    avx512_vnni::MatMulQ5Block,
    avx512_vnni::MatMulQ8Block,
}};

}  // namespace tahmin::kernels
