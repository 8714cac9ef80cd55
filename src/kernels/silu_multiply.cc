#include "kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/silu_multiply.cc"
#include "hwy/foreach_target.h"  // re-includes this file once for each target

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/partial_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tahmin::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void SiluMultiplyRow(const float* gate, const float* up, size_t size, float* out) {
  const FloatVector one = hn::Set(FloatTag(), 1.0f);
  // exp(100) is infinity in float32 already; Highway's Exp is undefined far beyond.
  const FloatVector limit = hn::Set(FloatTag(), 100.0f);
  for (size_t i = 0; i < size; i += kLanes) {
    const size_t count = size - i;
    const FloatVector v = LoadPartial(gate + i, count);
    const FloatVector exponential = hn::Exp(FloatTag(), hn::Min(hn::Neg(v), limit));
    const FloatVector silu = hn::Div(v, hn::Add(one, exponential));
    StorePartial(hn::Mul(silu, LoadPartial(up + i, count)), out + i, count);
  }
}

}  // namespace tahmin::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tahmin::kernels {

HWY_EXPORT(SiluMultiplyRow);

void SiluMultiply(const float* gate, const float* up, int64_t size, float* out) {
  HWY_DYNAMIC_DISPATCH(SiluMultiplyRow)(gate, up, static_cast<size_t>(size), out);
}

}  // namespace tahmin::kernels
#endif  // HWY_ONCE
