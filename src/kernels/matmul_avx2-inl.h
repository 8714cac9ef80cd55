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
constexpr int64_t kPrefetchBytes = 4096;  // how far ahead of the reads to prefetch

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

TAHMIN_INLINE void Prefetch(const uint8_t* bytes, int64_t num_bytes) {
  for (int64_t i = 0; i < num_bytes; i += kLineBytes) {
    _mm_prefetch(reinterpret_cast<const char*>(bytes + i), _MM_HINT_T0);
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

#ifdef TAHMIN_AVX_VNNI
// sum += four products of each lane: weights unsigned, values signed, no saturation.
TAHMIN_INLINE Ints AddDot(Ints sum, Ints weights, Ints values) {
  return _mm256_dpbusd_avx_epi32(sum, weights, values);
}
#endif

TAHMIN_INLINE void ClearOut(const GroupPass& pass) {
  for (int32_t i = 0; i < pass.num_rows * kLanes; i += 8) {
    _mm256_store_ps(pass.out + i, _mm256_setzero_ps());
  }
}

}  // namespace
}  // namespace avx2
}  // namespace tahmin::kernels
