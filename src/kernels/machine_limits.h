// The limits of this machine that a pass is held against: streaming reads, int8 and fp32
// multiply-adds, on all threads of the pool at once. Measured in the same session as the figures
// that are compared with them, since absolute speeds drift with the host's other load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/thread_pool.h"

namespace tahmin::kernels {

// Prefetch distances in bytes worth trying; 0: the hardware alone.
std::span<const int64_t> StreamingPrefetchDistances();

// Reads `buffer` once, split over the threads, and returns bytes per second.
double MeasureStreamingRead(std::span<const uint8_t> buffer, int64_t prefetch_distance,
                            ThreadPool& pool);

// Multiply-accumulates per second of the active ISA's int8 instruction (vpdpbusd, SDOT; vpmaddubsw
// and an add on AVX2; scalar in portable code), 12 independent chains a thread.
double MeasureInt8Macs(ThreadPool& pool);

// The same for float32 fused multiply-adds, 12 chains a thread.
double MeasureFp32Macs(ThreadPool& pool);

}  // namespace tahmin::kernels
