#include <cmath>

#include "kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/rms_norm.cc"
#include "hwy/foreach_target.h"  // re-includes this file once for each target

#include "hwy/highway.h"
#include "kernels/partial_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tahmin::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Four running vectors, whatever the size: value i belongs to lane i % (4 * kLanes).
float SumOfSquares(const float* x, size_t size) {
  constexpr size_t kStep = 4 * kLanes;
  FloatVector sum0 = hn::Zero(FloatTag());
  FloatVector sum1 = sum0, sum2 = sum0, sum3 = sum0;
  HWY_ALIGN float tail[kStep] = {};
  for (size_t i = 0; i < size; i += kStep) {
    const float* from = x + i;
    if (size - i < kStep) {
      std::memcpy(tail, from, (size - i) * sizeof(float));
      from = tail;
    }
    const FloatVector x0 = hn::LoadU(FloatTag(), from);
    const FloatVector x1 = hn::LoadU(FloatTag(), from + kLanes);
    const FloatVector x2 = hn::LoadU(FloatTag(), from + 2 * kLanes);
    const FloatVector x3 = hn::LoadU(FloatTag(), from + 3 * kLanes);
    sum0 = hn::MulAdd(x0, x0, sum0);
    sum1 = hn::MulAdd(x1, x1, sum1);
    sum2 = hn::MulAdd(x2, x2, sum2);
    sum3 = hn::MulAdd(x3, x3, sum3);
  }
  const FloatVector sum = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
  return hn::GetLane(hn::SumOfLanes(FloatTag(), sum));
}

void RmsNormRow(const float* x, const float* weight, float epsilon, size_t size, float* out) {
  const float mean = SumOfSquares(x, size) / static_cast<float>(size);
  const FloatVector scale = hn::Set(FloatTag(), 1.0f / std::sqrt(mean + epsilon));
  for (size_t i = 0; i < size; i += kLanes) {
    const size_t count = size - i;
    const FloatVector scaled = hn::Mul(LoadPartial(x + i, count), scale);
    StorePartial(hn::Mul(scaled, LoadPartial(weight + i, count)), out + i, count);
  }
}

}  // namespace tahmin::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tahmin::kernels {

HWY_EXPORT(RmsNormRow);

void RmsNorm(const float* x, const float* weight, float epsilon, int64_t size, float* out) {
  HWY_DYNAMIC_DISPATCH(RmsNormRow)(x, weight, epsilon, static_cast<size_t>(size), out);
}

}  // namespace tahmin::kernels
#endif  // HWY_ONCE
