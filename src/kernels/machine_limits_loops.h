// The peak loops of each ISA: they run `iterations` rounds of kPeakChains chains and return a value
// that depends on all of them. Plain declarations only: per-ISA files include this.
#pragma once

#include <cstdint>

namespace tahmin::kernels {

constexpr int kPeakChains = 12;

int64_t Int8PeakLoopNeonDot(int64_t iterations);
int64_t Int8PeakLoopAvx2(int64_t iterations);
int64_t Int8PeakLoopAvxVnni(int64_t iterations);
int64_t Int8PeakLoopAvx512Vnni(int64_t iterations);
constexpr int kInt8MacsPerInstructionNeonDot = 16;
constexpr int kInt8MacsPerInstructionAvx2 = 32;
constexpr int kInt8MacsPerInstructionAvxVnni = 32;
constexpr int kInt8MacsPerInstructionAvx512Vnni = 64;

}  // namespace tahmin::kernels
