// What the AVX-512 VNNI kernels of the super and of the block layouts share. The 16 lanes of a
// group fill one register, vpdpbusd adds four products of a lane into 32 bits without saturation,
// up to eight activation rows share a weight register: a tile of n rows for n left over. Each tile
// unpacks the quants for itself; in long passes bit planes are unpacked once for all. The order of
// float operations depends on (layout, activation block) alone. vpdpbusd and the pair dots of the
// scales compete for the same pipes, on Intel cores with all other 512-bit arithmetic as well
// (docs/kernels.md).
//
// Included by matmul_avx512_vnni.cc and matmul_avx512_vnni_blocks.cc alone, which are compiled with
// the same flags; and by way of them by matmul_avx512_vnni_emulated.cc, with
// TAHMIN_EMULATED_INTRINSICS defined and the namespace renamed. All but the three kernels declared
// first is static in a namespace without a name: no copy can serve another unit.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/matmul_tables.h"

#define TAHMIN_INLINE static inline __attribute__((always_inline))
// For loops over the rows of a tile. Left alone, GCC 12 unrolls those of six to eight rows too late
// to keep their sums in registers: it stored and reloaded them at each step.
#define TAHMIN_UNROLL _Pragma("GCC unroll 8")

namespace tahmin::kernels {
namespace avx512_vnni {

// The kernels of the block layouts, for the table in matmul_avx512_vnni.cc.
void MatMulQ4Block(const GroupPass& pass);
void MatMulQ5Block(const GroupPass& pass);
void MatMulQ8Block(const GroupPass& pass);

namespace {

using Ints = __m512i;
using Floats = __m512;

constexpr int64_t kPrefetchBytes = 6144;        // how far ahead of the reads to prefetch
constexpr int kMaxTileRows = 8;                 // activation rows that share a weight register
constexpr int kUnpackedBytes = 8 * kLineBytes;  // unpacked quants of 32 columns
// From how many rows on quants with bit planes are unpacked once for all tiles of a pass. Storing
// them and reading twice the bytes costs more than unpacking them a few times; for nibbles alone,
// and for bytes, it always does.
constexpr int kUnpackedRows = 17;
// Sums per row of a tile: with few rows, one chain of vpdpbusd would be bound by its latency.
constexpr int Chains(int rows) { return rows <= 2 ? 2 : 1; }

TAHMIN_INLINE Ints Load(const uint8_t* bytes) { return _mm512_loadu_si512(bytes); }

// AddDot: sum += weights . four activations, in every lane. AddPairDot: sum += pairs . two 16-bit
// numbers. GCC 12 does not fold the broadcast into the instruction by itself: one more instruction
// and register for each. InRegister: GCC 12 would read memory again at each use.
#ifdef TAHMIN_EMULATED_INTRINSICS
TAHMIN_INLINE Ints Broadcast4(const void* bytes) {
  int32_t word;
  __builtin_memcpy(&word, bytes, 4);
  return _mm512_set1_epi32(word);
}
TAHMIN_INLINE void AddDot(Ints& sum, Ints weights, const int8_t* values) {
  sum = _mm512_dpbusd_epi32(sum, weights, Broadcast4(values));
}
TAHMIN_INLINE void AddPairDot(Ints& sum, Ints pairs, const int16_t* values) {
  sum = _mm512_dpwssd_epi32(sum, pairs, Broadcast4(values));
}
TAHMIN_INLINE Ints InRegister(Ints value) { return value; }
#else
using Word = int32_t __attribute__((aligned(1), may_alias));

TAHMIN_INLINE void AddDot(Ints& sum, Ints weights, const int8_t* values) {
  __asm__("vpdpbusd %2%{1to16%}, %1, %0"
          : "+v"(sum)
          : "v"(weights), "m"(*reinterpret_cast<const Word*>(values)));
}
TAHMIN_INLINE void AddPairDot(Ints& sum, Ints pairs, const int16_t* values) {
  __asm__("vpdpwssd %2%{1to16%}, %1, %0"
          : "+v"(sum)
          : "v"(pairs), "m"(*reinterpret_cast<const Word*>(values)));
}
TAHMIN_INLINE Ints InRegister(Ints value) {
  __asm__("" : "+v"(value));
  return value;
}
#endif

TAHMIN_INLINE Floats LoadHalves(const uint8_t* bytes) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)));
}

// The bits of `a` where `mask` has ones, of `b` where it has zeros.
TAHMIN_INLINE Ints Select(Ints mask, Ints a, Ints b) {
  return _mm512_ternarylogic_epi32(b, mask, a, 0xB8);
}

// Where a tile reads its quants. Line<l>() gives those of one line, 16 rows x 4 columns each:
// `even` = quad 2l, `odd` = quad 2l + 1.
template <int kPlaneBitsOf>
struct PackedQuants {
  static constexpr int kPlaneBits = kPlaneBitsOf;
  static constexpr int kBytes = kNibbleBytes + kPlaneBits * kLineBytes;
  static constexpr int kPackedBytes = kBytes;

  template <int kLine>
  TAHMIN_INLINE void Line(const uint8_t* quants, Ints& even, Ints& odd) {
    const Ints nibble = _mm512_set1_epi8(15);
    const Ints low = InRegister(Load(quants + kLine * kLineBytes));
    const Ints high = _mm512_srli_epi16(low, 4);
    if constexpr (kPlaneBits == 0) {
      even = _mm512_and_si512(low, nibble);
      odd = _mm512_and_si512(high, nibble);
    } else {
      even = Select(nibble, low, UpperBits<2 * kLine>(quants + kNibbleBytes));
      odd = Select(nibble, high, UpperBits<2 * kLine + 1>(quants + kNibbleBytes));
    }
  }

  // The plane's bits of a quad in place above its nibbles, zeros above them. A masked field serves
  // two quads, one of them four bits up.
  template <int kQuad>
  TAHMIN_INLINE Ints UpperBits(const uint8_t* planes) {
    constexpr int kShift = kPlaneBits * kQuad % 4;
    const Ints field = _mm512_set1_epi8(kPlaneBits == 1 ? 0x11 : 0x33);
    Ints plane = Load(planes + kPlaneBits * kQuad / 8 * kLineBytes);
    if constexpr (kShift != 0) plane = _mm512_srli_epi16(plane, kShift);
    const Ints bits = _mm512_and_si512(plane, field);
    if constexpr (kPlaneBits * kQuad % 8 < 4) return _mm512_slli_epi16(bits, 4);
    return bits;
  }
};

// What UnpackQuants wrote.
template <typename Packed>
struct UnpackedQuants {
  static constexpr int kBytes = kUnpackedBytes;
  static constexpr int kPackedBytes = Packed::kBytes;

  template <int kLine>
  TAHMIN_INLINE void Line(const uint8_t* quants, Ints& even, Ints& odd) {
    even = Load(quants + 2 * kLine * kLineBytes);
    odd = Load(quants + (2 * kLine + 1) * kLineBytes);
  }
};

template <typename Packed, int kLine>
TAHMIN_INLINE void UnpackLine(const uint8_t* quants, uint8_t* out) {
  Ints even, odd;
  Packed::template Line<kLine>(quants, even, odd);
  _mm512_storeu_si512(out + 2 * kLine * kLineBytes, even);
  _mm512_storeu_si512(out + (2 * kLine + 1) * kLineBytes, odd);
}

template <typename Packed>
__attribute__((noinline)) void UnpackQuants(const uint8_t* __restrict quants, int num_runs,
                                            uint8_t* __restrict out) {
  for (int i = 0; i < num_runs; ++i) {
    UnpackLine<Packed, 0>(quants, out);
    UnpackLine<Packed, 1>(quants, out);
    UnpackLine<Packed, 2>(quants, out);
    UnpackLine<Packed, 3>(quants, out);
    quants += Packed::kBytes;
    out += kUnpackedBytes;
  }
}

// sums[r] += quants . x[r] over one line (8 columns), spread over the chains.
template <typename Quants, int kLine, int R, int C>
TAHMIN_INLINE void AddLine(const uint8_t* quants, const int8_t* const (&x)[R], int64_t column,
                           Ints (&sums)[R][C]) {
  Ints even, odd;
  Quants::template Line<kLine>(quants, even, odd);
  // All rows of a quad, then all of the next: a sum is used again only after R others.
  TAHMIN_UNROLL
  for (int r = 0; r < R; ++r) AddDot(sums[r][0], even, x[r] + column + 8 * kLine);
  TAHMIN_UNROLL
  for (int r = 0; r < R; ++r) AddDot(sums[r][C - 1], odd, x[r] + column + 8 * kLine + 4);
}

template <typename Quants, int kFirstLine, int R, int C>
TAHMIN_INLINE void AddTwoLines(const uint8_t* quants, const int8_t* const (&x)[R], int64_t column,
                               Ints (&sums)[R][C]) {
  AddLine<Quants, kFirstLine>(quants, x, column, sums);
  AddLine<Quants, kFirstLine + 1>(quants, x, column, sums);
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

TAHMIN_INLINE void ClearOut(const GroupPass& pass) {
  for (int32_t row = 0; row < pass.num_rows; ++row) {
    _mm512_storeu_ps(pass.out + row * kLanes, _mm512_setzero_ps());
  }
}

// Into the second-level cache: from there hardware brings the lines in time, and prefetches into
// the first level hold one of its few miss buffers until memory answers.
TAHMIN_INLINE void Prefetch(const uint8_t* bytes, int64_t num_bytes) {
  for (int64_t i = 0; i < num_bytes; i += kLineBytes) {
    _mm_prefetch(reinterpret_cast<const char*>(bytes + i), _MM_HINT_T1);
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

}  // namespace
}  // namespace avx512_vnni
}  // namespace tahmin::kernels
