#include <algorithm>
#include <limits>

#include "kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/top_probability.cc"
#include "hwy/foreach_target.h"  // re-includes this file once for each target

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/partial_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tahmin::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

float TopProbabilityOf(const float* logits, size_t size) {
  const size_t whole = size / kLanes * kLanes;
  FloatVector peaks = hn::Set(FloatTag(), -std::numeric_limits<float>::infinity());
  for (size_t i = 0; i < whole; i += kLanes)
    peaks = hn::Max(peaks, hn::LoadU(FloatTag(), logits + i));
  float peak = hn::GetLane(hn::MaxOfLanes(FloatTag(), peaks));
  for (size_t i = whole; i < size; ++i) peak = std::max(peak, logits[i]);

  // Highway's Exp is undefined far below the range of float32; what is that small counts nothing.
  const FloatVector least = hn::Set(FloatTag(), -80.0f);
  const FloatVector top = hn::Set(FloatTag(), peak);
  FloatVector sums = hn::Zero(FloatTag());
  for (size_t i = 0; i < whole; i += kLanes) {
    const FloatVector below = hn::Sub(hn::LoadU(FloatTag(), logits + i), top);
    sums = hn::Add(sums, hn::Exp(FloatTag(), hn::Max(below, least)));
  }
  float sum = hn::GetLane(hn::SumOfLanes(FloatTag(), sums));
  for (size_t i = whole; i < size; ++i) {
    const FloatVector below = hn::Set(FloatTag(), std::max(logits[i] - peak, -80.0f));
    sum += hn::GetLane(hn::Exp(FloatTag(), below));
  }
  return 1.0f / sum;
}

}  // namespace tahmin::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tahmin::kernels {

HWY_EXPORT(TopProbabilityOf);

float TopProbability(const float* logits, int64_t size) {
  return HWY_DYNAMIC_DISPATCH(TopProbabilityOf)(logits, static_cast<size_t>(size));
}

}  // namespace tahmin::kernels
#endif  // HWY_ONCE
