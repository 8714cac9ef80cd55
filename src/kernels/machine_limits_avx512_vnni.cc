#include <immintrin.h>

#include <cstdint>

#include "kernels/machine_limits_loops.h"

namespace tahmin::kernels {

int64_t Int8PeakLoopAvx512Vnni(int64_t iterations) {
  __m512i chains[kPeakChains];
#pragma GCC unroll 12
  for (int i = 0; i < kPeakChains; ++i) chains[i] = _mm512_setzero_si512();
  __m512i weights = _mm512_set1_epi8(3);
  __m512i activations = _mm512_set1_epi8(-5);
  for (int64_t round = 0; round < iterations; ++round) {
    // The compiler must not see that the operands never change.
    asm volatile("" : "+v"(weights), "+v"(activations));
#pragma GCC unroll 12
    for (int i = 0; i < kPeakChains; ++i) {
      chains[i] = _mm512_dpbusd_epi32(chains[i], weights, activations);
      asm volatile("" : "+v"(chains[i]));
    }
  }
  __m512i sum = chains[0];
#pragma GCC unroll 12
  for (int i = 1; i < kPeakChains; ++i) sum = _mm512_add_epi32(sum, chains[i]);
  return _mm256_extract_epi64(_mm512_castsi512_si256(sum), 0);
}

}  // namespace tahmin::kernels
