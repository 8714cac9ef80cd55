#include "kernels/machine_limits.h"

#include <atomic>
#include <chrono>

#include "kernels/isa.h"
#include "kernels/machine_limits_loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/machine_limits.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tahmin::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// XOR of all bytes in steps of 256; size is a multiple of 256.
uint64_t ReadAll(const uint8_t* bytes, int64_t size, int64_t prefetch_distance) {
  const hn::CappedTag<uint8_t, 64> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a, c = a, e = a;
  for (int64_t offset = 0; offset < size; offset += 256) {
    if (prefetch_distance > 0) {
      for (int64_t line = 0; line < 256; line += 64)
        hwy::Prefetch(bytes + offset + prefetch_distance + line);
    }
    for (int64_t i = offset; i < offset + 256; i += 4 * lanes) {
      a = hn::Xor(a, hn::LoadU(d, bytes + i));
      b = hn::Xor(b, hn::LoadU(d, bytes + i + lanes));
      c = hn::Xor(c, hn::LoadU(d, bytes + i + 2 * lanes));
      e = hn::Xor(e, hn::LoadU(d, bytes + i + 3 * lanes));
    }
  }
  uint8_t out[64] = {};
  hn::StoreU(hn::Xor(hn::Xor(a, b), hn::Xor(c, e)), d, out);
  return out[0];
}

// 12 chains of fused multiply-adds; returns their sum. No two chains begin alike: a compiler makes
// one chain of those that do.
float Fp32PeakLoop(int64_t iterations, float factor) {
  const hn::CappedTag<float, 16> d;
  const auto f = hn::Set(d, factor);
  auto c0 = f, c1 = hn::Add(c0, f), c2 = hn::Add(c1, f), c3 = hn::Add(c2, f);
  auto c4 = hn::Add(c3, f), c5 = hn::Add(c4, f), c6 = hn::Add(c5, f), c7 = hn::Add(c6, f);
  auto c8 = hn::Add(c7, f), c9 = hn::Add(c8, f), c10 = hn::Add(c9, f), c11 = hn::Add(c10, f);
  for (int64_t round = 0; round < iterations; ++round) {
    c0 = hn::MulAdd(c0, f, f);
    c1 = hn::MulAdd(c1, f, f);
    c2 = hn::MulAdd(c2, f, f);
    c3 = hn::MulAdd(c3, f, f);
    c4 = hn::MulAdd(c4, f, f);
    c5 = hn::MulAdd(c5, f, f);
    c6 = hn::MulAdd(c6, f, f);
    c7 = hn::MulAdd(c7, f, f);
    c8 = hn::MulAdd(c8, f, f);
    c9 = hn::MulAdd(c9, f, f);
    c10 = hn::MulAdd(c10, f, f);
    c11 = hn::MulAdd(c11, f, f);
  }
  const auto low = hn::Add(hn::Add(hn::Add(c0, c1), hn::Add(c2, c3)), hn::Add(c4, c5));
  const auto high = hn::Add(hn::Add(hn::Add(c6, c7), hn::Add(c8, c9)), hn::Add(c10, c11));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(low, high)));
}

int64_t Fp32Lanes() { return static_cast<int64_t>(hn::Lanes(hn::CappedTag<float, 16>())); }

}  // namespace HWY_NAMESPACE
}  // namespace tahmin::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tahmin::kernels {

HWY_EXPORT(ReadAll);
HWY_EXPORT(Fp32PeakLoop);
HWY_EXPORT(Fp32Lanes);

namespace {

std::atomic<uint64_t> sink{0};  // keeps the loops' results alive

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// One int8 multiply-add a round and chain, for ISAs without an intrinsic loop.
int64_t Int8PeakLoopScalar(int64_t iterations) {
  int32_t chains[kPeakChains] = {};
  volatile int8_t weight = 3;
  for (int64_t round = 0; round < iterations; ++round) {
    const int32_t w = weight;
    for (int32_t& chain : chains) chain = (chain & 0xffff) + w * 5;
  }
  int64_t sum = 0;
  for (int32_t chain : chains) sum += chain;
  return sum;
}

struct Int8Peak {
  int64_t (*loop)(int64_t);
  int macs_per_chain;
};

Int8Peak ChooseInt8Peak() {
  switch (ActiveIsa()) {
#if defined(__x86_64__)
    case Isa::kAvx512Vnni:
      return {Int8PeakLoopAvx512Vnni, kInt8MacsPerInstructionAvx512Vnni};
    case Isa::kAvxVnni:
      return {Int8PeakLoopAvxVnni, kInt8MacsPerInstructionAvxVnni};
    case Isa::kAvx2:
      return {Int8PeakLoopAvx2, kInt8MacsPerInstructionAvx2};
#elif defined(__aarch64__)
    case Isa::kNeonDot:
      return {Int8PeakLoopNeonDot, kInt8MacsPerInstructionNeonDot};
#endif
    default:
      return {Int8PeakLoopScalar, 1};
  }
}

constexpr int64_t kIterations = 2'000'000;

}  // namespace

std::span<const int64_t> StreamingPrefetchDistances() {
  static constexpr int64_t kDistances[] = {0, 512, 1024, 2048, 4096};
  return kDistances;
}

double MeasureStreamingRead(std::span<const uint8_t> buffer, int64_t prefetch_distance,
                            ThreadPool& pool) {
  // Four parts a thread: one that the system slows down does not hold up the whole.
  const int64_t num_parts = int64_t{4} * pool.num_threads();
  const int64_t part_bytes = static_cast<int64_t>(buffer.size()) / num_parts / 256 * 256;
  const auto start = std::chrono::steady_clock::now();
  pool.ParallelFor(num_parts, [&](int64_t part, int) {
    sink += HWY_DYNAMIC_DISPATCH(ReadAll)(buffer.data() + part * part_bytes, part_bytes,
                                          prefetch_distance);
  });
  return static_cast<double>(num_parts * part_bytes) / SecondsSince(start);
}

double MeasureInt8Macs(ThreadPool& pool) {
  const Int8Peak peak = ChooseInt8Peak();
  const auto start = std::chrono::steady_clock::now();
  pool.ParallelFor(pool.num_threads(),
                   [&](int64_t, int) { sink += static_cast<uint64_t>(peak.loop(kIterations)); });
  return static_cast<double>(kIterations) * kPeakChains * peak.macs_per_chain * pool.num_threads() /
         SecondsSince(start);
}

double MeasureFp32Macs(ThreadPool& pool) {
  const int64_t lanes = HWY_DYNAMIC_DISPATCH(Fp32Lanes)();
  const auto start = std::chrono::steady_clock::now();
  pool.ParallelFor(pool.num_threads(), [&](int64_t, int) {
    sink += static_cast<uint64_t>(HWY_DYNAMIC_DISPATCH(Fp32PeakLoop)(kIterations, 0.25f));
  });
  return static_cast<double>(kIterations) * 12 * lanes * pool.num_threads() / SecondsSince(start);
}

}  // namespace tahmin::kernels
#endif  // HWY_ONCE
