// Integer matmul kernels for AVX2 + FMA + F16C. A group's 16 lanes are two halves of 8 weight rows,
// one 32-bit lane of a register each. Both halves share each broadcast of activations (broadcasts
// are loads, and would take as long as the products), and up to four activation rows share an
// unpacked weight register.
// maddubs (unsigned weights, signed activations) cannot saturate: quants of 4, 5 and 6 bits times
// 127 are added up in 16 bits only as far as kLinesPerSum allows, and |w| * 127 * 2 <= 32512 for
// 8-bit weights. The order of float operations depends on (layout, activation block) alone, never
// on the tile.
#include <cstddef>
#include <cstdint>

#include "kernels/matmul_avx2-inl.h"

namespace tahmin::kernels {
namespace avx2 {
namespace {

#ifdef TAHMIN_AVX_VNNI

// dots += scale * sums; clears sums.
template <int R>
TAHMIN_INLINE void AddScaled(const Ints (&scale)[2], Ints (&sums)[R][2], Ints (&dots)[R][2]) {
  for (int r = 0; r < R; ++r) {
    for (int half = 0; half < 2; ++half) {
      dots[r][half] =
          _mm256_add_epi32(dots[r][half], _mm256_mullo_epi32(sums[r][half], scale[half]));
      Pin(dots[r][half]);
    }
  }
  Clear(sums);
}

// The same over 32 columns. `first` and `second` scale the first and the last 16 columns.
template <typename L, typename Quants, int R>
TAHMIN_INLINE void AddQuants(const uint8_t* quants, const int8_t* const (&x)[R], int64_t column,
                             const Ints (&first)[2], const Ints (&second)[2], Ints (&dots)[R][2]) {
  Ints sums[R][2];
  Clear(sums);
  AddLine<Quants, 0>(quants, x, column, sums);
  AddLine<Quants, 1>(quants, x, column, sums);
  if constexpr (L::kScaleColumns == 16) AddScaled(first, sums, dots);
  AddLine<Quants, 2>(quants, x, column, sums);
  AddLine<Quants, 3>(quants, x, column, sums);
  AddScaled(second, sums, dots);
}

// Of each lane's pair of 16-bit numbers, the first or the second one, sign-extended.
TAHMIN_INLINE Ints FirstScale(Ints pairs) {
  return _mm256_srai_epi32(_mm256_slli_epi32(pairs, 16), 16);
}
TAHMIN_INLINE Ints SecondScale(Ints pairs) { return _mm256_srai_epi32(pairs, 16); }

#else

// dots += scale * (quants . x) over one line (8 columns) that is a whole 16-bit sum.
template <int R>
TAHMIN_INLINE void AddWholeLine(const Ints (&even)[2], const Ints (&odd)[2],
                                const int8_t* const (&x)[R], int64_t column, const Ints (&scale)[2],
                                Ints (&dots)[R][2]) {
  for (int r = 0; r < R; ++r) {
    const Ints first = Broadcast4(x[r] + column);
    const Ints second = Broadcast4(x[r] + column + 4);
    for (int half = 0; half < 2; ++half) {
      const Ints sum = _mm256_add_epi16(_mm256_maddubs_epi16(even[half], first),
                                        _mm256_maddubs_epi16(odd[half], second));
      dots[r][half] = _mm256_add_epi32(dots[r][half], _mm256_madd_epi16(sum, scale[half]));
      Pin(dots[r][half]);
    }
  }
}

// The same over one of several lines per sum; `sums` are the open 16-bit sums.
template <typename Quants, int kLinesPerSum, int kLine, int R>
TAHMIN_INLINE void AddLine(const uint8_t* quants, const int8_t* const (&x)[R], int64_t column,
                           const Ints (&scale)[2], Ints (&sums)[R][2], Ints (&dots)[R][2]) {
  Ints even[2], odd[2];
  Quants::template Line<kLine>(quants, even, odd);
  if constexpr (kLinesPerSum == 1) {
    return AddWholeLine(even, odd, x, column + 8 * kLine, scale, dots);
  }
  AddQuad<kLine % kLinesPerSum == 0>(even, x, column + 8 * kLine, sums);
  AddQuad<false>(odd, x, column + 8 * kLine + 4, sums);
  if constexpr (kLine % kLinesPerSum == kLinesPerSum - 1) {
    for (int r = 0; r < R; ++r) {
      for (int half = 0; half < 2; ++half) {
        dots[r][half] =
            _mm256_add_epi32(dots[r][half], _mm256_madd_epi16(sums[r][half], scale[half]));
        Pin(dots[r][half]);
      }
    }
  }
}

// The same over 32 columns. `first` and `second` scale the first and the last 16 columns.
template <typename L, typename Quants, int R>
TAHMIN_INLINE void AddQuants(const uint8_t* quants, const int8_t* const (&x)[R], int64_t column,
                             const Ints (&first)[2], const Ints (&second)[2], Ints (&dots)[R][2]) {
  constexpr int kLinesPerSum = L::kLinesPerSum;
  Ints sums[R][2];
  AddLine<Quants, kLinesPerSum, 0>(quants, x, column, first, sums, dots);
  AddLine<Quants, kLinesPerSum, 1>(quants, x, column, first, sums, dots);
  AddLine<Quants, kLinesPerSum, 2>(quants, x, column, second, sums, dots);
  AddLine<Quants, kLinesPerSum, 3>(quants, x, column, second, sums, dots);
}

// Of each lane's pair of 16-bit numbers, the first or the second one twice.
TAHMIN_INLINE Ints FirstScale(Ints pairs) {
  return _mm256_or_si256(_mm256_and_si256(pairs, _mm256_set1_epi32(0xFFFF)),
                         _mm256_slli_epi32(pairs, 16));
}
TAHMIN_INLINE Ints SecondScale(Ints pairs) {
  return _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(pairs, 0xF5), 0xF5);
}

#endif  // TAHMIN_AVX_VNNI

// ---- Super layouts -----------------------------------------------------------------------------

struct Q4Super {
  static constexpr int kPlaneBits = 0, kScaleColumns = 32, kLinesPerSum = 4;
  static constexpr bool kHasMin = true;
};
struct Q5Super {
  static constexpr int kPlaneBits = 1, kScaleColumns = 32, kLinesPerSum = 2;
  static constexpr bool kHasMin = true;
};
struct Q6Super {
  static constexpr int kPlaneBits = 2, kScaleColumns = 16, kLinesPerSum = 1;
  static constexpr bool kHasMin = false;
};
struct Q2Super {
  static constexpr int kPlaneBits = 0, kScaleColumns = 16, kLinesPerSum = 2;
  static constexpr bool kHasMin = true;
};

// Bytes of one unit: integer scales, everything but the f16 numbers, these, and all of it.
template <typename L>
constexpr int kSuperScaleBytes = kSuperColumns / L::kScaleColumns* kLanes;
template <typename L>
constexpr int kSuperUnitBytes = (L::kHasMin ? 2 : 1) * kSuperScaleBytes<L> +
                                kSuperColumns / kBlockColumns* PackedQuants<L::kPlaneBits>::kBytes;
template <typename L>
constexpr int kSuperHalvesBytes = (L::kHasMin ? 2 : 1) * kHalvesBytes;
template <typename L>
constexpr int kSuperBytes = kSuperUnitBytes<L> + kSuperHalvesBytes<L>;

// One unit, for one tile.
struct SuperUnit {
  const uint8_t* halves;  // d, then m
  const uint8_t* scales;
  const uint8_t* mins;
  const uint8_t* quants;
  const uint8_t* ahead;  // to prefetch, or null
};

template <typename L>
TAHMIN_INLINE Ints LoadPairs(const uint8_t* scales, int pair, int half) {
  const __m128i bytes = _mm_loadu_si128(
      reinterpret_cast<const __m128i*>(scales + pair * 2 * kLanes + half * 2 * kHalfLanes));
  return L::kHasMin ? _mm256_cvtepu8_epi16(bytes) : _mm256_cvtepi8_epi16(bytes);
}

// The sum over `columns` columns from `column` of the unit of min (or scale) times activation sums.
template <typename L, int kColumns, int R>
TAHMIN_INLINE void MinDots(const uint8_t* mins, const QuantizedRow* rows, int64_t row_column,
                           int column, Ints (&totals)[R][2]) {
  constexpr int kPairColumns = 2 * L::kScaleColumns;
  constexpr int kNumPairs = kColumns < kPairColumns ? 1 : kColumns / kPairColumns;
  Clear(totals);
  for (int i = 0; i < kNumPairs; ++i) {
    const int pair = column / kPairColumns + i;
    Ints pairs[2] = {LoadPairs<L>(mins, pair, 0), LoadPairs<L>(mins, pair, 1)};
    if constexpr (kColumns < kPairColumns) {
      const bool is_second = column % kPairColumns != 0;
      const Ints mask = _mm256_set1_epi32(is_second ? static_cast<int>(0xFFFF0000u) : 0xFFFF);
      for (Ints& value : pairs) value = _mm256_and_si256(value, mask);
    }
    for (int r = 0; r < R; ++r) {
      const int16_t* sums = L::kScaleColumns == 16 ? rows[r].sums16 + row_column / 16
                                                   : rows[r].sums32 + row_column / 32;
      const Ints values = Broadcast4(sums + 2 * pair);
      for (int half = 0; half < 2; ++half) {
        totals[r][half] = _mm256_add_epi32(totals[r][half], _mm256_madd_epi16(pairs[half], values));
        Pin(totals[r][half]);
      }
    }
  }
}

// out += scale of the activation block * (d * dots - m * min dots), kColumns columns from `column`.
template <typename L, int kColumns, int R>
TAHMIN_INLINE void Flush(const SuperUnit& unit, const QuantizedRow* rows, int64_t row_column,
                         int column, Ints (&dots)[R][2], float* out) {
  Ints min_dots[R][2];
  MinDots<L, kColumns>(L::kHasMin ? unit.mins : unit.scales, rows, row_column, column, min_dots);
  for (int half = 0; half < 2; ++half) {
    const Floats d = LoadHalves(unit.halves + half * 2 * kHalfLanes);
    for (int r = 0; r < R; ++r) {
      float* to = out + r * kLanes + half * kHalfLanes;
      const Floats scale = _mm256_broadcast_ss(rows[r].scales + (row_column + column) / kColumns);
      Floats sum = _mm256_load_ps(to);
      if constexpr (L::kHasMin) {
        const Floats m = LoadHalves(unit.halves + kHalvesBytes + half * 2 * kHalfLanes);
        sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[r][half]), _mm256_mul_ps(d, scale), sum);
        sum = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(min_dots[r][half]), _mm256_mul_ps(m, scale), sum);
      } else {
        const Ints centred =
            _mm256_sub_epi32(dots[r][half], _mm256_slli_epi32(min_dots[r][half], 5));
        sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(centred), _mm256_mul_ps(d, scale), sum);
      }
      _mm256_store_ps(to, sum);
    }
  }
  Clear(dots);
}

// out[r] += unit . rows[r]; row_column is the unit's first column.
template <typename L, typename Quants, int kBlock, int R>
TAHMIN_INLINE void SuperTile(const SuperUnit& unit, const QuantizedRow* rows, int64_t row_column,
                             float* out) {
  const int8_t* x[R];
  Ints dots[R][2];
  Clear(dots);
  for (int r = 0; r < R; ++r) x[r] = rows[r].values + row_column;
  const uint8_t* quants = unit.quants;
  for (int column = 0; column < kSuperColumns; column += 64) {
    if (unit.ahead != nullptr) {
      Prefetch(unit.ahead + column / 64 * kSuperBytes<L> / 4, kSuperBytes<L> / 4);
    }
    for (int part = 0; part < 2; ++part) {
      const int at = column + 32 * part;
      Ints first[2], second[2];
      for (int half = 0; half < 2; ++half) {
        const Ints pairs = LoadPairs<L>(unit.scales, at / (2 * L::kScaleColumns), half);
        if constexpr (L::kScaleColumns == 16) {
          first[half] = FirstScale(pairs);
          second[half] = SecondScale(pairs);
        } else {
          first[half] = second[half] = part == 0 ? FirstScale(pairs) : SecondScale(pairs);
        }
      }
      AddQuants<L, Quants>(quants, x, at, first, second, dots);
      quants += Quants::kBytes;
      if constexpr (kBlock == 32) Flush<L, 32>(unit, rows, row_column, at, dots, out);
    }
    if constexpr (kBlock == 64) Flush<L, 64>(unit, rows, row_column, column, dots, out);
    if constexpr (kBlock == 128) {
      if (column % 128 == 64) Flush<L, 128>(unit, rows, row_column, column - 64, dots, out);
    }
  }
  if constexpr (kBlock == 256) Flush<L, 256>(unit, rows, row_column, 0, dots, out);
}

template <typename L, typename Quants, int kBlock>
TAHMIN_INLINE void SuperTiles(SuperUnit unit, const GroupPass& pass, int64_t row_column,
                              float* out) {
  int32_t row = 0;
  for (; row + kTileRows <= pass.num_rows; row += kTileRows) {
    SuperTile<L, Quants, kBlock, kTileRows>(unit, pass.rows + row, row_column, out + row * kLanes);
    unit.ahead = nullptr;
  }
  const QuantizedRow* rest = pass.rows + row;
  out += row * kLanes;
  switch (pass.num_rows - row) {
    case 3:
      return SuperTile<L, Quants, kBlock, 3>(unit, rest, row_column, out);
    case 2:
      return SuperTile<L, Quants, kBlock, 2>(unit, rest, row_column, out);
    case 1:
      return SuperTile<L, Quants, kBlock, 1>(unit, rest, row_column, out);
    default:
      return;
  }
}

template <typename L, int kBlock>
void SuperGroup(const GroupPass& pass) {
  constexpr int kNumBlocks = kSuperColumns / kBlockColumns;
  alignas(kLineBytes) uint8_t unpacked[kNumBlocks * kUnpackedBytes];
  ClearOut(pass);
  const int64_t num_units = pass.columns / kSuperColumns;
  for (int64_t u = 0; u < num_units; ++u) {
    const uint8_t* bytes = pass.group + pass.halves_bytes + u * kSuperUnitBytes<L>;
    SuperUnit unit{pass.group + u * kSuperHalvesBytes<L>, bytes, bytes + kSuperScaleBytes<L>,
                   bytes + (L::kHasMin ? 2 : 1) * kSuperScaleBytes<L>,
                   pass.group + kPrefetchBytes + u * kSuperBytes<L>};
    if (pass.num_rows > UnpackRows(L::kPlaneBits)) {
      UnpackQuants<L::kPlaneBits>(unit.quants, kNumBlocks, unpacked);
      unit.quants = unpacked;
      SuperTiles<L, UnpackedQuants, kBlock>(unit, pass, u * kSuperColumns, pass.out);
    } else {
      SuperTiles<L, PackedQuants<L::kPlaneBits>, kBlock>(unit, pass, u * kSuperColumns, pass.out);
    }
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

}  // namespace
}  // namespace avx2

const MatMulTable kMatMulAvx2 = {{
    avx2::Super<avx2::Q4Super>,
    avx2::Super<avx2::Q5Super>,
    avx2::Super<avx2::Q6Super>,
    avx2::Super<avx2::Q2Super>,
    MatMulQ4BlockAvx2,
    MatMulQ5BlockAvx2,
    MatMulQ8BlockAvx2,
}};

}  // namespace tahmin::kernels
