#include <arm_neon.h>

#include <cstdint>

#include "kernels/machine_limits_loops.h"

namespace tahmin::kernels {

int64_t Int8PeakLoopNeonDot(int64_t iterations) {
  int32x4_t chains[kPeakChains];
#pragma GCC unroll 12
  for (int i = 0; i < kPeakChains; ++i) chains[i] = vdupq_n_s32(0);
  int8x16_t weights = vdupq_n_s8(3);
  int8x16_t activations = vdupq_n_s8(-5);
  for (int64_t round = 0; round < iterations; ++round) {
    // The compiler must not see that the operands never change.
    asm volatile("" : "+w"(weights), "+w"(activations));
#pragma GCC unroll 12
    for (int i = 0; i < kPeakChains; ++i) {
      chains[i] = vdotq_s32(chains[i], weights, activations);
      asm volatile("" : "+w"(chains[i]));
    }
  }
  int32x4_t sum = chains[0];
#pragma GCC unroll 12
  for (int i = 1; i < kPeakChains; ++i) sum = vaddq_s32(sum, chains[i]);
  return vgetq_lane_s32(sum, 0);
}

}  // namespace tahmin::kernels
