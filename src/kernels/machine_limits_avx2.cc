#include <immintrin.h>

#include <cstdint>

#include "kernels/machine_limits_loops.h"

namespace tahmin::kernels {

int64_t Int8PeakLoopAvx2(int64_t iterations) {
  __m256i chains[kPeakChains];
#pragma GCC unroll 12
  for (int i = 0; i < kPeakChains; ++i) chains[i] = _mm256_setzero_si256();
  __m256i weights = _mm256_set1_epi8(3);
  __m256i activations = _mm256_set1_epi8(-5);
  for (int64_t round = 0; round < iterations; ++round) {
    // The compiler must not see that the operands never change.
    asm volatile("" : "+x"(weights), "+x"(activations));
#pragma GCC unroll 12
    for (int i = 0; i < kPeakChains; ++i) {
      __m256i product = _mm256_maddubs_epi16(weights, activations);
      asm volatile("" : "+x"(product));
      chains[i] = _mm256_add_epi16(chains[i], product);
    }
  }
  __m256i sum = chains[0];
#pragma GCC unroll 12
  for (int i = 1; i < kPeakChains; ++i) sum = _mm256_add_epi16(sum, chains[i]);
  return _mm256_extract_epi64(sum, 0);
}

}  // namespace tahmin::kernels
