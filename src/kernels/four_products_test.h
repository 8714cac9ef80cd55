// The VNNI instruction vpdpbusd written out in AVX2, exactly, for the emulated kernels of the
// tests.
#pragma once

#include <immintrin.h>

namespace tahmin::kernels {
namespace emulation {
namespace {

// sum += the four products of each lane, bytes of a unsigned, of b signed.
inline __m256i AddFourProducts(__m256i sum, __m256i a, __m256i b) {
  const __m256i low_bytes = _mm256_set1_epi16(0xff);
  const __m256i even = _mm256_madd_epi16(_mm256_and_si256(a, low_bytes),
                                         _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(a, 8), _mm256_srai_epi16(b, 8));
  return _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
}

}  // namespace
}  // namespace emulation
}  // namespace tahmin::kernels
