// Integer matmul kernels for AVX-512 with VNNI: the 16 lanes of a group fill one register, vpdpbusd
// adds four products of a lane into 32 bits without saturation, up to eight activation rows share
// an unpacked weight register: a tile of n rows for n left over, so that nothing is unpacked twice
// below nine rows. Sums stay integers for an activation block; its float sum waits in pass.out, so
// that eight rows fit the 32 registers without a spill. The order of float operations depends on
// (layout, activation block) alone.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/matmul_tables.h"

#define TAHMIN_INLINE static inline __attribute__((always_inline))
// For loops over the rows of a tile. Left alone, GCC 12 unrolls those of six to eight rows too late
// to keep their sums in registers: it stored and reloaded them at each step.
#define TAHMIN_UNROLL _Pragma("GCC unroll 8")

namespace tahmin::kernels {
namespace avx512_vnni {
namespace {

using Ints = __m512i;
using Floats = __m512;

constexpr int64_t kPrefetchBytes = 4096;  // how far ahead of the reads to prefetch
constexpr int kRunUnits = 8;              // block units per tile call: 256 columns
constexpr int kMaxTileRows = 8;           // activation rows that share a weight register
// Sums per row of a tile: with few rows, one chain of vpdpbusd would be bound by its latency.
constexpr int Chains(int rows) { return rows <= 2 ? 2 : 1; }

TAHMIN_INLINE Ints Load(const uint8_t* bytes) { return _mm512_loadu_si512(bytes); }

TAHMIN_INLINE Ints Broadcast4(const void* bytes) {
  int32_t word;
  __builtin_memcpy(&word, bytes, 4);
  return _mm512_set1_epi32(word);
}

// sum += weights . four activations, in every lane. GCC 12 does not fold the broadcast into the
// instruction by itself: one more instruction and register for each.
TAHMIN_INLINE void AddDot(Ints& sum, Ints weights, const int8_t* values) {
#ifdef TAHMIN_EMULATED_INTRINSICS
  sum = _mm512_dpbusd_epi32(sum, weights, Broadcast4(values));
#else
  using Word = int32_t __attribute__((aligned(1), may_alias));
  __asm__("vpdpbusd %2%{1to16%}, %1, %0"
          : "+v"(sum)
          : "v"(weights), "m"(*reinterpret_cast<const Word*>(values)));
#endif
}

TAHMIN_INLINE Floats LoadHalves(const uint8_t* bytes) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)));
}

// The quants of one line: `even` = quad 2 * line, `odd` = quad 2 * line + 1, 16 rows x 4 columns
// each.
template <int kPlaneBits, int kLine>
TAHMIN_INLINE void UnpackLine(const uint8_t* quants, Ints& even, Ints& odd) {
  const Ints nibble = _mm512_set1_epi8(15);
  const Ints packed = Load(quants + kLine * kLineBytes);
  even = _mm512_and_si512(packed, nibble);
  odd = _mm512_and_si512(_mm512_srli_epi16(packed, 4), nibble);
  if constexpr (kPlaneBits == 1) {
    const Ints bit = _mm512_set1_epi8(16);
    const Ints plane = Load(quants + kNibbleBytes);
    const Ints e = kLine < 2 ? _mm512_slli_epi16(plane, kLine < 2 ? 4 - 2 * kLine : 0)
                             : _mm512_srli_epi16(plane, kLine < 2 ? 0 : 2 * kLine - 4);
    const Ints o = kLine < 2 ? _mm512_slli_epi16(plane, kLine < 2 ? 3 - 2 * kLine : 0)
                             : _mm512_srli_epi16(plane, kLine < 2 ? 0 : 2 * kLine - 3);
    even = _mm512_or_si512(even, _mm512_and_si512(e, bit));
    odd = _mm512_or_si512(odd, _mm512_and_si512(o, bit));
  }
  if constexpr (kPlaneBits == 2) {
    const Ints bits = _mm512_set1_epi8(48);
    const Ints plane = Load(quants + kNibbleBytes + kLine / 2 * kLineBytes);
    const Ints e = kLine % 2 == 0 ? _mm512_slli_epi16(plane, 4) : plane;
    const Ints o = kLine % 2 == 0 ? _mm512_slli_epi16(plane, 2) : _mm512_srli_epi16(plane, 2);
    even = _mm512_or_si512(even, _mm512_and_si512(e, bits));
    odd = _mm512_or_si512(odd, _mm512_and_si512(o, bits));
  }
}

// sums[r] += quants . x[r] over one line (8 columns), spread over the chains.
template <int kPlaneBits, int kLine, int R, int C>
TAHMIN_INLINE void AddLine(const uint8_t* quants, const int8_t* const (&x)[R], int64_t column,
                           Ints (&sums)[R][C]) {
  Ints even, odd;
  UnpackLine<kPlaneBits, kLine>(quants, even, odd);
  // All rows of a quad, then all of the next: a sum is used again only after R others.
  TAHMIN_UNROLL
  for (int r = 0; r < R; ++r) AddDot(sums[r][0], even, x[r] + column + 8 * kLine);
  TAHMIN_UNROLL
  for (int r = 0; r < R; ++r) AddDot(sums[r][C - 1], odd, x[r] + column + 8 * kLine + 4);
}

template <int kPlaneBits, int kFirstLine, int R, int C>
TAHMIN_INLINE void AddTwoLines(const uint8_t* quants, const int8_t* const (&x)[R], int64_t column,
                               Ints (&sums)[R][C]) {
  AddLine<kPlaneBits, kFirstLine>(quants, x, column, sums);
  AddLine<kPlaneBits, kFirstLine + 1>(quants, x, column, sums);
}

template <int R, int C>
TAHMIN_INLINE void Clear(Ints (&values)[R][C]) {
  TAHMIN_UNROLL
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) values[r][c] = _mm512_setzero_si512();
  }
}

template <int C>
TAHMIN_INLINE Ints Total(const Ints (&chains)[C]) {
  return C == 1 ? chains[0] : _mm512_add_epi32(chains[0], chains[C - 1]);
}

// dots += sums * scale, lane by lane; clears sums.
template <int R, int C>
TAHMIN_INLINE void AddScaled(Ints scale, Ints (&sums)[R][C], Ints (&dots)[R][1]) {
  TAHMIN_UNROLL
  for (int r = 0; r < R; ++r) {
    dots[r][0] = _mm512_add_epi32(dots[r][0], _mm512_mullo_epi32(Total(sums[r]), scale));
  }
  Clear(sums);
}

// Of each lane's pair of 16-bit numbers, the first or the second one, sign-extended.
TAHMIN_INLINE Ints First(Ints pairs) { return _mm512_srai_epi32(_mm512_slli_epi32(pairs, 16), 16); }
TAHMIN_INLINE Ints Second(Ints pairs) { return _mm512_srai_epi32(pairs, 16); }

TAHMIN_INLINE void ClearOut(const GroupPass& pass) {
  for (int32_t row = 0; row < pass.num_rows; ++row) {
    _mm512_storeu_ps(pass.out + row * kLanes, _mm512_setzero_ps());
  }
}

TAHMIN_INLINE void Prefetch(const uint8_t* bytes, int64_t num_bytes) {
  for (int64_t i = 0; i < num_bytes; i += kLineBytes) {
    _mm_prefetch(reinterpret_cast<const char*>(bytes + i), _MM_HINT_T0);
  }
}

// Calls tile(constant R, first row) so that tiles of up to kMaxTileRows rows cover all rows.
template <int R>
struct TileRows {
  static constexpr int kRows = R;
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
  static constexpr int kPlaneBits = kPlaneBitsOf;
  static constexpr int kScaleColumns = kScaleColumnsOf, kPairColumns = 2 * kScaleColumns;
  static constexpr bool kHasMin = kHasMinOf;
  static constexpr int kScaleBytes = kSuperColumns / kScaleColumns * kLanes;
  static constexpr int kMinBytes = kHasMin ? kScaleBytes : 0;
  static constexpr int kQuantBytes = kNibbleBytes + kPlaneBits * kLineBytes;
  static constexpr int kNumRuns = kSuperColumns / kBlockColumns;
  static constexpr int kUnitBytes = kScaleBytes + kMinBytes + kNumRuns * kQuantBytes;
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

// The sums over one activation block, which starts at `column` of the unit, of min (or scale) times
// activation sums: one chain of 16-bit pair dots.
template <typename L, int R>
TAHMIN_INLINE void MinDots(const SuperUnit& unit, const QuantizedRow* rows, int column,
                           Ints (&totals)[R][1]) {
  const uint8_t* mins = L::kHasMin ? unit.mins : unit.scales;
  const int first = column / L::kPairColumns;
  const int num_pairs = unit.block < L::kPairColumns ? 1 : unit.block / L::kPairColumns;
  int32_t mask = -1;  // of a pair that spans two activation blocks, one counts
  if (unit.block < L::kPairColumns) mask = column % L::kPairColumns != 0 ? -65536 : 65535;
  Clear(totals);
  for (int pair = first; pair < first + num_pairs; ++pair) {
    const Ints pairs = _mm512_and_si512(LoadPairs<L>(mins, pair), _mm512_set1_epi32(mask));
    const int64_t at = unit.column / L::kScaleColumns + 2 * pair;
    TAHMIN_UNROLL
    for (int r = 0; r < R; ++r) {
      const int16_t* sums = L::kScaleColumns == 16 ? rows[r].sums16 : rows[r].sums32;
      totals[r][0] = _mm512_dpwssd_epi32(totals[r][0], pairs, Broadcast4(sums + at));
    }
  }
}

// out += scale of the activation block * (d * dots - m * min dots) for the activation block that
// starts at `column` of the unit. Not inlined: the registers of the tile are its own.
template <typename L, int R>
__attribute__((noinline)) void Flush(const SuperUnit& unit, const QuantizedRow* rows, int column,
                                     const Ints (&dots)[R][1], float* out) {
  Ints min_dots[R][1];
  MinDots<L>(unit, rows, column, min_dots);
  const int64_t activation_block =
      (unit.column + column) >> __builtin_ctz(static_cast<unsigned>(unit.block));
  const Floats d = LoadHalves(unit.halves);
  TAHMIN_UNROLL
  for (int r = 0; r < R; ++r) {
    const Floats scale = _mm512_set1_ps(rows[r].scales[activation_block]);
    Floats sum = _mm512_loadu_ps(out + r * kLanes);
    if constexpr (L::kHasMin) {
      const Floats m = LoadHalves(unit.halves + kHalvesBytes);
      sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[r][0]), _mm512_mul_ps(d, scale), sum);
      sum = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(min_dots[r][0]), _mm512_mul_ps(m, scale), sum);
    } else {
      const Ints centred = _mm512_sub_epi32(dots[r][0], _mm512_slli_epi32(min_dots[r][0], 5));
      sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(centred), _mm512_mul_ps(d, scale), sum);
    }
    _mm512_storeu_ps(out + r * kLanes, sum);
  }
}

// The same of the registers of a tile, which are cleared.
template <typename L, int R>
TAHMIN_INLINE void FlushAndClear(const SuperUnit& unit, const QuantizedRow* rows, int column,
                                 Ints (&dots)[R][1], float* out) {
  Ints copy[R][1];
  TAHMIN_UNROLL
  for (int r = 0; r < R; ++r) copy[r][0] = dots[r][0];
  Flush<L>(unit, rows, column, copy, out);
  Clear(dots);
}

// dots += scale * (quants . x) over 32 columns from column `at` of the unit, the kPart'th of 64
// whose quants and scales are given.
template <typename L, int kPart, int R>
TAHMIN_INLINE void AddRun(const uint8_t* quants, const uint8_t* scales, const int8_t* const (&x)[R],
                          int at, Ints (&dots)[R][1]) {
  quants += kPart * L::kQuantBytes;
  const Ints pairs = LoadPairs<L>(scales, kPart * kBlockColumns / L::kPairColumns);
  Ints sums[R][Chains(R)];
  Clear(sums);
  AddTwoLines<L::kPlaneBits, 0>(quants, x, at, sums);
  if constexpr (L::kScaleColumns == 16) AddScaled(First(pairs), sums, dots);
  AddTwoLines<L::kPlaneBits, 2>(quants, x, at, sums);
  const bool is_first = L::kScaleColumns == 32 && kPart == 0;
  AddScaled(is_first ? First(pairs) : Second(pairs), sums, dots);
}

// out[r] += unit . rows[r].
template <typename L, int R>
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
    AddRun<L, 0>(quants, scales, x, column, dots);
    if (block == 32) FlushAndClear<L>(unit, rows, column, dots, out);
    AddRun<L, 1>(quants, scales, x, column + 32, dots);
    if (((column + 64) & (block - 1)) == 0) {
      FlushAndClear<L>(unit, rows, column + 64 - block, dots, out);
    }
    quants += 2 * L::kQuantBytes;
    scales += 64 / L::kScaleColumns * kLanes;
  }
}

template <typename L>
void Super(const GroupPass& pass) {
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
    ForEachTile(pass.num_rows, [&](auto tile, int32_t row) {
      SuperTile<L, decltype(tile)::kRows>(unit, pass.rows + row, pass.out + row * kLanes);
      unit.ahead = nullptr;
    });
  }
}

// ---- Block layouts -----------------------------------------------------------------------------

struct NibbleBlock {
  static constexpr int kQuantBytes = kNibbleBytes;
  template <int R, int C>
  TAHMIN_INLINE void Add(const uint8_t* quants, const int8_t* const (&x)[R], int64_t column,
                         Ints (&dots)[R][C]) {
    AddTwoLines<0, 0>(quants, x, column, dots);
    AddTwoLines<0, 2>(quants, x, column, dots);
  }
};

struct FiveBitBlock {
  static constexpr int kQuantBytes = kNibbleBytes + kBitPlaneBytes;
  template <int R, int C>
  TAHMIN_INLINE void Add(const uint8_t* quants, const int8_t* const (&x)[R], int64_t column,
                         Ints (&dots)[R][C]) {
    AddTwoLines<1, 0>(quants, x, column, dots);
    AddTwoLines<1, 2>(quants, x, column, dots);
  }
};

// Signed weights become unsigned by adding 128, which is the zero point of the pass.
struct ByteBlock {
  static constexpr int kQuantBytes = kByteQuantBytes;
  template <int R, int C>
  TAHMIN_INLINE void Add(const uint8_t* quants, const int8_t* const (&x)[R], int64_t column,
                         Ints (&dots)[R][C]) {
    const Ints top_bit = _mm512_set1_epi8(static_cast<char>(-128));
    for (int quad = 0; quad < 8; ++quad) {
      const Ints weights = _mm512_xor_si512(Load(quants + quad * kLineBytes), top_bit);
      TAHMIN_UNROLL
      for (int r = 0; r < R; ++r) AddDot(dots[r][quad % C], weights, x[r] + column + 4 * quad);
    }
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

// out[r] += d * scale * dot (+ m * scaled sum) of unit u.
template <bool kHasMin, int R, int C>
TAHMIN_INLINE void FlushUnit(const BlockRun& run, const QuantizedRow* rows, int32_t u,
                             const Ints (&dots)[R][C], Floats (&out)[R]) {
  const int64_t column = run.column + u * kBlockColumns;
  const uint8_t* halves = run.halves + u * (kHasMin ? 2 : 1) * kHalvesBytes;
  const Floats d = LoadHalves(halves);
  TAHMIN_UNROLL
  for (int r = 0; r < R; ++r) {
    const Floats scale = _mm512_set1_ps(rows[r].scales[column >> run.block_shift]);
    out[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(Total(dots[r])), _mm512_mul_ps(d, scale), out[r]);
    if constexpr (kHasMin) {
      const Floats m = LoadHalves(halves + kHalvesBytes);
      const Floats sum = _mm512_set1_ps(rows[r].scaled_sums[column / kBlockColumns]);
      out[r] = _mm512_fmadd_ps(m, sum, out[r]);
    }
  }
}

template <typename L, bool kHasMin, int R>
__attribute__((noinline)) void BlockTile(const BlockRun& run, const QuantizedRow* rows,
                                         float* out) {
  const int8_t* x[R];
  Floats sums[R];
  TAHMIN_UNROLL
  for (int r = 0; r < R; ++r) {
    x[r] = rows[r].values + run.column;
    sums[r] = _mm512_loadu_ps(out + r * kLanes);
  }
  for (int32_t u = 0; u < run.num_units; ++u) {
    if (run.ahead != nullptr) {
      constexpr int kBytes = L::kQuantBytes + (kHasMin ? 2 : 1) * kHalvesBytes;
      Prefetch(run.ahead + u * kBytes, kBytes);
    }
    Ints dots[R][Chains(R)];
    Clear(dots);
    if constexpr (!kHasMin) {
      TAHMIN_UNROLL
      for (int r = 0; r < R; ++r) {
        const int32_t sum = rows[r].sums32[run.column / kBlockColumns + u];
        dots[r][0] = _mm512_set1_epi32(-run.zero_point * sum);
      }
    }
    L::Add(run.quants + u * L::kQuantBytes, x, u * kBlockColumns, dots);
    FlushUnit<kHasMin>(run, rows, u, dots, sums);
  }
  TAHMIN_UNROLL
  for (int r = 0; r < R; ++r) _mm512_storeu_ps(out + r * kLanes, sums[r]);
}

template <typename L, bool kHasMin>
void BlockGroup(const GroupPass& pass, int32_t zero_point) {
  constexpr int kUnitHalves = (kHasMin ? 2 : 1) * kHalvesBytes;
  ClearOut(pass);
  const int32_t block_shift = __builtin_ctz(static_cast<unsigned>(pass.block));
  const uint8_t* ahead = pass.group + pass.halves_bytes + kPrefetchBytes;
  const int64_t num_units = pass.columns / kBlockColumns;
  for (int64_t u = 0; u < num_units; u += kRunUnits) {
    BlockRun run{pass.group + u * kUnitHalves,
                 pass.group + pass.halves_bytes + u * L::kQuantBytes,
                 ahead + u * (L::kQuantBytes + kUnitHalves),
                 u * kBlockColumns,
                 static_cast<int32_t>(num_units - u < kRunUnits ? num_units - u : kRunUnits),
                 block_shift,
                 zero_point};
    ForEachTile(pass.num_rows, [&](auto tile, int32_t row) {
      BlockTile<L, kHasMin, decltype(tile)::kRows>(run, pass.rows + row, pass.out + row * kLanes);
      run.ahead = nullptr;
    });
  }
}

template <typename L>
void Nibbles(const GroupPass& pass) {
  if (pass.has_min) return BlockGroup<L, true>(pass, 0);
  return BlockGroup<L, false>(pass, pass.zero_point);
}

void Bytes(const GroupPass& pass) { BlockGroup<ByteBlock, false>(pass, 128); }

}  // namespace
}  // namespace avx512_vnni

const MatMulTable kMatMulAvx512Vnni = {{
    avx512_vnni::Super<avx512_vnni::SuperLayout<0, 32, true>>,
    avx512_vnni::Super<avx512_vnni::SuperLayout<1, 32, true>>,
    avx512_vnni::Super<avx512_vnni::SuperLayout<2, 16, false>>,
    avx512_vnni::Super<avx512_vnni::SuperLayout<0, 16, true>>,
    avx512_vnni::Nibbles<avx512_vnni::NibbleBlock>,
    avx512_vnni::Nibbles<avx512_vnni::FiveBitBlock>,
    avx512_vnni::Bytes,
}};

}  // namespace tahmin::kernels
