// Integer matmul kernels for AVX-512 with VNNI: the 16 lanes of a group fill one register, vpdpbusd
// adds four products of a lane into 32 bits without saturation, up to eight activation rows share
// an unpacked weight register. The order of float operations depends on (layout, activation block)
// alone.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/matmul_tables.h"

#define TAHMIN_INLINE static inline __attribute__((always_inline))

namespace tahmin::kernels {
namespace avx512_vnni {
namespace {

using Ints = __m512i;
using Floats = __m512;

constexpr int64_t kPrefetchBytes = 4096;  // how far ahead of the reads to prefetch
constexpr int kRunUnits = 8;              // block units per tile call: 256 columns

TAHMIN_INLINE Ints Load(const uint8_t* bytes) { return _mm512_loadu_si512(bytes); }

TAHMIN_INLINE Ints Broadcast4(const void* bytes) {
  int32_t word;
  __builtin_memcpy(&word, bytes, 4);
  return _mm512_set1_epi32(word);
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

// dots[r] += quants . x[r] over one line (8 columns).
template <int kPlaneBits, int kLine, int R>
TAHMIN_INLINE void AddLine(const uint8_t* quants, const int8_t* const (&x)[R], int64_t column,
                           Ints (&dots)[R]) {
  Ints even, odd;
  UnpackLine<kPlaneBits, kLine>(quants, even, odd);
  for (int r = 0; r < R; ++r) {
    const int8_t* values = x[r] + column + 8 * kLine;
    dots[r] = _mm512_dpbusd_epi32(dots[r], even, Broadcast4(values));
    dots[r] = _mm512_dpbusd_epi32(dots[r], odd, Broadcast4(values + 4));
  }
}

template <int kPlaneBits, int kFirstLine, int R>
TAHMIN_INLINE void AddTwoLines(const uint8_t* quants, const int8_t* const (&x)[R], int64_t column,
                               Ints (&dots)[R]) {
  AddLine<kPlaneBits, kFirstLine>(quants, x, column, dots);
  AddLine<kPlaneBits, kFirstLine + 1>(quants, x, column, dots);
}

template <int R>
TAHMIN_INLINE void Clear(Ints (&values)[R]) {
  for (int r = 0; r < R; ++r) values[r] = _mm512_setzero_si512();
}

// total += part * scale, lane by lane; clears part.
template <int R>
TAHMIN_INLINE void AddScaled(Ints scale, Ints (&part)[R], Ints (&total)[R]) {
  for (int r = 0; r < R; ++r) {
    total[r] = _mm512_add_epi32(total[r], _mm512_mullo_epi32(part[r], scale));
    part[r] = _mm512_setzero_si512();
  }
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

// Calls tile(integer constant R, first row) so that the tiles of 8, 4, 2 and 1 rows cover all rows.
template <int R>
struct TileRows {
  static constexpr int kRows = R;
};
template <typename Tile>
TAHMIN_INLINE void ForEachTile(int32_t num_rows, Tile tile) {
  int32_t row = 0;
  for (; row + 8 <= num_rows; row += 8) tile(TileRows<8>(), row);
  if (row + 4 <= num_rows) {
    tile(TileRows<4>(), row);
    row += 4;
  }
  if (row + 2 <= num_rows) {
    tile(TileRows<2>(), row);
    row += 2;
  }
  if (row < num_rows) tile(TileRows<1>(), row);
}

// ---- Super layouts -----------------------------------------------------------------------------

struct Q4Super {
  static constexpr int kPlaneBits = 0, kScaleColumns = 32;
  static constexpr bool kHasMin = true;
};
struct Q5Super {
  static constexpr int kPlaneBits = 1, kScaleColumns = 32;
  static constexpr bool kHasMin = true;
};
struct Q6Super {
  static constexpr int kPlaneBits = 2, kScaleColumns = 16;
  static constexpr bool kHasMin = false;
};
struct Q2Super {
  static constexpr int kPlaneBits = 0, kScaleColumns = 16;
  static constexpr bool kHasMin = true;
};

struct SuperUnit {
  const uint8_t* halves;  // d, then m
  const uint8_t* scales;
  const uint8_t* mins;
  const uint8_t* quants;
};

template <typename L>
TAHMIN_INLINE Ints LoadPairs(const uint8_t* scales, int pair) {
  const __m256i bytes =
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales + pair * 2 * kLanes));
  return L::kHasMin ? _mm512_cvtepu8_epi16(bytes) : _mm512_cvtepi8_epi16(bytes);
}

// The sum over kColumns columns from `column` of the unit of min (or scale) times activation sums.
template <typename L, int kColumns>
TAHMIN_INLINE Ints MinDot(const uint8_t* mins, const QuantizedRow& row, int64_t row_column,
                          int column) {
  constexpr int kPairColumns = 2 * L::kScaleColumns;
  const int16_t* sums =
      L::kScaleColumns == 16 ? row.sums16 + row_column / 16 : row.sums32 + row_column / 32;
  if constexpr (kColumns < kPairColumns) {
    const Ints pairs = LoadPairs<L>(mins, column / kPairColumns);
    const bool is_second = column % kPairColumns != 0;
    const Ints mask = _mm512_set1_epi32(is_second ? static_cast<int>(0xFFFF0000u) : 0xFFFF);
    return _mm512_madd_epi16(_mm512_and_si512(pairs, mask),
                             Broadcast4(sums + column / kPairColumns * 2));
  } else {
    Ints total = _mm512_setzero_si512();
    for (int i = 0; i < kColumns / kPairColumns; ++i) {
      const int pair = column / kPairColumns + i;
      total = _mm512_add_epi32(
          total, _mm512_madd_epi16(LoadPairs<L>(mins, pair), Broadcast4(sums + 2 * pair)));
    }
    return total;
  }
}

// out += scale of the activation block * (d * dots - m * min dots), kColumns columns from `column`.
template <typename L, int kColumns, int R>
TAHMIN_INLINE void Flush(const SuperUnit& unit, const QuantizedRow* rows, int64_t row_column,
                         int column, Ints (&dots)[R], Floats (&out)[R]) {
  const Floats d = LoadHalves(unit.halves);
  for (int r = 0; r < R; ++r) {
    const Floats scale = _mm512_set1_ps(rows[r].scales[(row_column + column) / kColumns]);
    const Ints min_dots =
        MinDot<L, kColumns>(L::kHasMin ? unit.mins : unit.scales, rows[r], row_column, column);
    if constexpr (L::kHasMin) {
      const Floats m = LoadHalves(unit.halves + kHalvesBytes);
      out[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[r]), _mm512_mul_ps(d, scale), out[r]);
      out[r] = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(min_dots), _mm512_mul_ps(m, scale), out[r]);
    } else {
      const Ints centred = _mm512_sub_epi32(dots[r], _mm512_slli_epi32(min_dots, 5));
      out[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(centred), _mm512_mul_ps(d, scale), out[r]);
    }
    dots[r] = _mm512_setzero_si512();
  }
}

// out[r] += unit . rows[r]; row_column is the unit's first column.
template <typename L, int kBlock, int R>
TAHMIN_INLINE void SuperTile(const SuperUnit& unit, const QuantizedRow* rows, int64_t row_column,
                             float* out) {
  constexpr int kQuantBytes = kNibbleBytes + L::kPlaneBits * kLineBytes;
  const int8_t* x[R];
  Ints part[R], dots[R];
  Floats sums[R];
  Clear(part);
  Clear(dots);
  for (int r = 0; r < R; ++r) {
    x[r] = rows[r].values + row_column;
    sums[r] = _mm512_loadu_ps(out + r * kLanes);
  }
  const uint8_t* quants = unit.quants;
  for (int at = 0; at < kSuperColumns; at += 32) {
    const Ints pairs = LoadPairs<L>(unit.scales, at / (2 * L::kScaleColumns));
    AddTwoLines<L::kPlaneBits, 0>(quants, x, at, part);
    if constexpr (L::kScaleColumns == 16) AddScaled(First(pairs), part, dots);
    AddTwoLines<L::kPlaneBits, 2>(quants, x, at, part);
    const bool is_first = L::kScaleColumns == 32 && at % 64 == 0;
    AddScaled(is_first ? First(pairs) : Second(pairs), part, dots);
    quants += kQuantBytes;
    if ((at + 32) % kBlock == 0) {
      Flush<L, kBlock>(unit, rows, row_column, at + 32 - kBlock, dots, sums);
    }
  }
  for (int r = 0; r < R; ++r) _mm512_storeu_ps(out + r * kLanes, sums[r]);
}

template <typename L, int kBlock>
void SuperGroup(const GroupPass& pass) {
  constexpr int kScaleBytes = kSuperColumns / L::kScaleColumns * kLanes;
  constexpr int kMinBytes = L::kHasMin ? kScaleBytes : 0;
  constexpr int kUnitBytes =
      kScaleBytes + kMinBytes +
      kSuperColumns / kBlockColumns * (kNibbleBytes + L::kPlaneBits * kLineBytes);
  constexpr int kUnitHalves = (L::kHasMin ? 2 : 1) * kHalvesBytes;
  ClearOut(pass);
  const uint8_t* ahead = pass.group + kPrefetchBytes;
  for (int64_t u = 0; u < pass.columns / kSuperColumns; ++u) {
    const uint8_t* bytes = pass.group + pass.halves_bytes + u * kUnitBytes;
    const SuperUnit unit{pass.group + u * kUnitHalves, bytes, bytes + kScaleBytes,
                         bytes + kScaleBytes + kMinBytes};
    Prefetch(ahead, kUnitBytes + kUnitHalves);
    ahead += kUnitBytes + kUnitHalves;
    ForEachTile(pass.num_rows, [&](auto tile, int32_t row) {
      SuperTile<L, kBlock, decltype(tile)::kRows>(unit, pass.rows + row, u * kSuperColumns,
                                                  pass.out + row * kLanes);
    });
  }
}

template <typename L>
void Super(const GroupPass& pass) {
  switch (pass.block) {
    case 32:
      return SuperGroup<L, 32>(pass);
    case 64:
      return SuperGroup<L, 64>(pass);
    case 128:
      return SuperGroup<L, 128>(pass);
    default:
      return SuperGroup<L, 256>(pass);
  }
}

// ---- Block layouts -----------------------------------------------------------------------------

struct NibbleBlock {
  static constexpr int kQuantBytes = kNibbleBytes;
  template <int R>
  TAHMIN_INLINE void Add(const uint8_t* quants, const int8_t* const (&x)[R], int64_t column,
                         Ints (&dots)[R]) {
    AddTwoLines<0, 0>(quants, x, column, dots);
    AddTwoLines<0, 2>(quants, x, column, dots);
  }
};

struct FiveBitBlock {
  static constexpr int kQuantBytes = kNibbleBytes + kBitPlaneBytes;
  template <int R>
  TAHMIN_INLINE void Add(const uint8_t* quants, const int8_t* const (&x)[R], int64_t column,
                         Ints (&dots)[R]) {
    AddTwoLines<1, 0>(quants, x, column, dots);
    AddTwoLines<1, 2>(quants, x, column, dots);
  }
};

// Signed weights become unsigned by adding 128, which is the zero point of the pass.
struct ByteBlock {
  static constexpr int kQuantBytes = kByteQuantBytes;
  template <int R>
  TAHMIN_INLINE void Add(const uint8_t* quants, const int8_t* const (&x)[R], int64_t column,
                         Ints (&dots)[R]) {
    const Ints top_bit = _mm512_set1_epi8(static_cast<char>(-128));
    for (int quad = 0; quad < 8; ++quad) {
      const Ints weights = _mm512_xor_si512(Load(quants + quad * kLineBytes), top_bit);
      for (int r = 0; r < R; ++r) {
        dots[r] = _mm512_dpbusd_epi32(dots[r], weights, Broadcast4(x[r] + column + 4 * quad));
      }
    }
  }
};

// A run of units (32 columns each), for one tile.
struct BlockRun {
  const uint8_t* halves;  // d [16], then m [16] with kHasMin, per unit
  const uint8_t* quants;
  int64_t column;  // first column
  int32_t num_units;
  int32_t block_shift;  // log2 of the activation block
  int32_t zero_point;
};

template <typename L, bool kHasMin, int R>
TAHMIN_INLINE void BlockTile(const BlockRun& run, const QuantizedRow* rows, float* out) {
  const int8_t* x[R];
  Floats sums[R];
  for (int r = 0; r < R; ++r) {
    x[r] = rows[r].values + run.column;
    sums[r] = _mm512_loadu_ps(out + r * kLanes);
  }
  for (int32_t u = 0; u < run.num_units; ++u) {
    const int64_t column = run.column + u * kBlockColumns;
    Ints dots[R];
    for (int r = 0; r < R; ++r) {
      const int32_t sum = rows[r].sums32[column / kBlockColumns];
      dots[r] = kHasMin ? _mm512_setzero_si512() : _mm512_set1_epi32(-run.zero_point * sum);
    }
    L::Add(run.quants + u * L::kQuantBytes, x, u * kBlockColumns, dots);
    const uint8_t* halves = run.halves + u * (kHasMin ? 2 : 1) * kHalvesBytes;
    const Floats d = LoadHalves(halves);
    for (int r = 0; r < R; ++r) {
      const Floats scale = _mm512_set1_ps(rows[r].scales[column >> run.block_shift]);
      sums[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[r]), _mm512_mul_ps(d, scale), sums[r]);
      if constexpr (kHasMin) {
        const Floats m = LoadHalves(halves + kHalvesBytes);
        const Floats sum = _mm512_set1_ps(rows[r].scaled_sums[column / kBlockColumns]);
        sums[r] = _mm512_fmadd_ps(m, sum, sums[r]);
      }
    }
  }
  for (int r = 0; r < R; ++r) _mm512_storeu_ps(out + r * kLanes, sums[r]);
}

template <typename L, bool kHasMin>
void BlockGroup(const GroupPass& pass, int32_t zero_point) {
  constexpr int kUnitHalves = (kHasMin ? 2 : 1) * kHalvesBytes;
  ClearOut(pass);
  const int32_t block_shift = __builtin_ctz(static_cast<unsigned>(pass.block));
  const uint8_t* ahead = pass.group + kPrefetchBytes;
  const int64_t num_units = pass.columns / kBlockColumns;
  for (int64_t u = 0; u < num_units; u += kRunUnits) {
    const int32_t count =
        static_cast<int32_t>(num_units - u < kRunUnits ? num_units - u : kRunUnits);
    const int64_t ahead_bytes = count * (L::kQuantBytes + kUnitHalves);
    Prefetch(ahead, ahead_bytes);
    ahead += ahead_bytes;
    const BlockRun run{pass.group + u * kUnitHalves,
                       pass.group + pass.halves_bytes + u * L::kQuantBytes,
                       u * kBlockColumns,
                       count,
                       block_shift,
                       zero_point};
    ForEachTile(pass.num_rows, [&](auto tile, int32_t row) {
      BlockTile<L, kHasMin, decltype(tile)::kRows>(run, pass.rows + row, pass.out + row * kLanes);
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
    avx512_vnni::Super<avx512_vnni::Q4Super>,
    avx512_vnni::Super<avx512_vnni::Q5Super>,
    avx512_vnni::Super<avx512_vnni::Q6Super>,
    avx512_vnni::Super<avx512_vnni::Q2Super>,
    avx512_vnni::Nibbles<avx512_vnni::NibbleBlock>,
    avx512_vnni::Nibbles<avx512_vnni::FiveBitBlock>,
    avx512_vnni::Bytes,
}};

}  // namespace tahmin::kernels
