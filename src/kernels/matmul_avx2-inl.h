// What the AVX2 kernels of the super and of the block layouts share: loads, broadcasts and
// unpacking. Included by matmul_avx2.cc and matmul_avx2_blocks.cc alone, which are compiled with
// the same flags; and by way of them by matmul_avx_vnni.cc, with TAHMIN_AVX_VNNI defined and the
// namespace renamed. Everything is static in a namespace without a name: no copy can serve another
// unit.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/matmul_tables.h"

#define TAHMIN_INLINE static inline __attribute__((always_inline))

namespace tahmin::kernels {
namespace avx2 {
namespace {

using Ints = __m256i;
using Floats = __m256;

constexpr int kHalfBytes = 32;            // one half of a line
constexpr int kHalfLanes = 8;             // weight rows of one half
constexpr int kTileRows = 4;              // activation rows that share a weight register
constexpr int64_t kPrefetchBytes = 6144;  // how far ahead of the reads to prefetch

TAHMIN_INLINE Ints Load(const uint8_t* bytes) {
  return _mm256_loadu_si256(reinterpret_cast<const Ints*>(bytes));
}

// Keeps the compiler from re-associating integer sums: it would hold all products of a tile at once
// and spill most of them (measured: 1.4 times the time at four rows).
TAHMIN_INLINE void Pin(Ints& value) { __asm__ volatile("" : "+x"(value)); }

TAHMIN_INLINE Ints Broadcast4(const void* bytes) {
  int32_t word;
  __builtin_memcpy(&word, bytes, 4);
  return _mm256_set1_epi32(word);
}

TAHMIN_INLINE Floats LoadHalves(const uint8_t* bytes) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}

// Into the second-level cache, as in matmul_avx512_vnni-inl.h.
TAHMIN_INLINE void Prefetch(const uint8_t* bytes, int64_t num_bytes) {
  for (int64_t i = 0; i < num_bytes; i += kLineBytes) {
    _mm_prefetch(reinterpret_cast<const char*>(bytes + i), _MM_HINT_T1);
  }
}

// The quants of one line: `even` = quad 2 * line, `odd` = quad 2 * line + 1, 8 rows x 4 columns
// each. quants points at this half's bytes of the first line.
template <int kPlaneBits, int kLine>
TAHMIN_INLINE void UnpackLine(const uint8_t* quants, Ints& even, Ints& odd) {
  const Ints nibble = _mm256_set1_epi8(15);
  const Ints packed = Load(quants + kLine * kLineBytes);
  even = _mm256_and_si256(packed, nibble);
  odd = _mm256_and_si256(_mm256_srli_epi16(packed, 4), nibble);
  if constexpr (kPlaneBits == 1) {
    const Ints bit = _mm256_set1_epi8(16);
    const Ints plane = Load(quants + kNibbleBytes);
    const Ints e = kLine < 2 ? _mm256_slli_epi16(plane, kLine < 2 ? 4 - 2 * kLine : 0)
                             : _mm256_srli_epi16(plane, kLine < 2 ? 0 : 2 * kLine - 4);
    const Ints o = kLine < 2 ? _mm256_slli_epi16(plane, kLine < 2 ? 3 - 2 * kLine : 0)
                             : _mm256_srli_epi16(plane, kLine < 2 ? 0 : 2 * kLine - 3);
    even = _mm256_or_si256(even, _mm256_and_si256(e, bit));
    odd = _mm256_or_si256(odd, _mm256_and_si256(o, bit));
  }
  if constexpr (kPlaneBits == 2) {
    const Ints bits = _mm256_set1_epi8(48);
    const Ints plane = Load(quants + kNibbleBytes + kLine / 2 * kLineBytes);
    const Ints e = kLine % 2 == 0 ? _mm256_slli_epi16(plane, 4) : plane;
    const Ints o = kLine % 2 == 0 ? _mm256_slli_epi16(plane, 2) : _mm256_srli_epi16(plane, 2);
    even = _mm256_or_si256(even, _mm256_and_si256(e, bits));
    odd = _mm256_or_si256(odd, _mm256_and_si256(o, bits));
  }
}

// From more rows than this, quants are unpacked once for all tiles; a plane makes unpacking dear.
constexpr int UnpackRows(int plane_bits) { return plane_bits == 0 ? 8 : 4; }
constexpr int kUnpackedBytes = 8 * kLineBytes;  // unpacked quants of 32 columns

// Where a tile reads its quants: from the packed group, or from the scratch of UnpackQuants.
template <int kPlaneBits>
struct PackedQuants {
  static constexpr int kBytes = kNibbleBytes + kPlaneBits * kLineBytes;
  template <int kLine>
  TAHMIN_INLINE void Line(const uint8_t* quants, Ints (&even)[2], Ints (&odd)[2]) {
    UnpackLine<kPlaneBits, kLine>(quants, even[0], odd[0]);
    UnpackLine<kPlaneBits, kLine>(quants + kHalfBytes, even[1], odd[1]);
  }
};

struct UnpackedQuants {
  static constexpr int kBytes = kUnpackedBytes;
  template <int kLine>
  TAHMIN_INLINE void Line(const uint8_t* quants, Ints (&even)[2], Ints (&odd)[2]) {
    for (int half = 0; half < 2; ++half) {
      const uint8_t* from = quants + 2 * kLine * kLineBytes + half * kHalfBytes;
      even[half] = Load(from);
      odd[half] = Load(from + kLineBytes);
    }
  }
};

template <int kPlaneBits, int kLine>
TAHMIN_INLINE void UnpackLineTo(const uint8_t* quants, uint8_t* out) {
  Ints even[2], odd[2];
  PackedQuants<kPlaneBits>::template Line<kLine>(quants, even, odd);
  for (int half = 0; half < 2; ++half) {
    uint8_t* to = out + 2 * kLine * kLineBytes + half * kHalfBytes;
    _mm256_store_si256(reinterpret_cast<Ints*>(to), even[half]);
    _mm256_store_si256(reinterpret_cast<Ints*>(to + kLineBytes), odd[half]);
  }
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

template <int R>
TAHMIN_INLINE void Clear(Ints (&dots)[R][2]) {
  for (int r = 0; r < R; ++r) dots[r][0] = dots[r][1] = _mm256_setzero_si256();
}

#ifdef TAHMIN_AVX_VNNI
// sum += four products of each lane: weights unsigned, values signed, no saturation.
TAHMIN_INLINE Ints AddDot(Ints sum, Ints weights, Ints values) {
  return _mm256_dpbusd_avx_epi32(sum, weights, values);
}

// sums += quants . x over one line (8 columns).
template <typename Quants, int kLine, int R>
TAHMIN_INLINE void AddLine(const uint8_t* quants, const int8_t* const (&x)[R], int64_t column,
                           Ints (&sums)[R][2]) {
  Ints even[2], odd[2];
  Quants::template Line<kLine>(quants, even, odd);
  for (int r = 0; r < R; ++r) {
    const Ints first = Broadcast4(x[r] + column + 8 * kLine);
    const Ints second = Broadcast4(x[r] + column + 8 * kLine + 4);
    for (int half = 0; half < 2; ++half) {
      sums[r][half] = AddDot(AddDot(sums[r][half], even[half], first), odd[half], second);
      Pin(sums[r][half]);
    }
  }
}

#else

// sums (+)= quants . x over one quad (4 columns), in 16 bits.
template <bool kIsFirst, int R>
TAHMIN_INLINE void AddQuad(const Ints (&quants)[2], const int8_t* const (&x)[R], int64_t column,
                           Ints (&sums)[R][2]) {
  for (int r = 0; r < R; ++r) {
    const Ints values = Broadcast4(x[r] + column);
    for (int half = 0; half < 2; ++half) {
      const Ints product = _mm256_maddubs_epi16(quants[half], values);
      sums[r][half] = kIsFirst ? product : _mm256_add_epi16(sums[r][half], product);
      Pin(sums[r][half]);
    }
  }
}

#endif  // TAHMIN_AVX_VNNI

TAHMIN_INLINE void ClearOut(const GroupPass& pass) {
  for (int32_t i = 0; i < pass.num_rows * kLanes; i += 8) {
    _mm256_store_ps(pass.out + i, _mm256_setzero_ps());
  }
}

}  // namespace
}  // namespace avx2
}  // namespace tahmin::kernels
