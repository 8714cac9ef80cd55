#include "kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/nan_check.cc"
#include "hwy/foreach_target.h"  // re-includes this file once for each target

#include "hwy/highway.h"
#include "kernels/partial_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tahmin::kernels::HWY_NAMESPACE {

bool RowHasNoNan(const float* x, size_t size) {
  namespace hn = hwy::HWY_NAMESPACE;
  auto found = hn::FirstN(FloatTag(), 0);
  for (size_t i = 0; i < size; i += kLanes) {
    found = hn::Or(found, hn::IsNaN(LoadPartial(x + i, size - i)));
  }
  return hn::AllFalse(FloatTag(), found);
}

}  // namespace tahmin::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tahmin::kernels {

HWY_EXPORT(RowHasNoNan);

bool HasNoNan(const float* x, int64_t size) {
  return HWY_DYNAMIC_DISPATCH(RowHasNoNan)(x, static_cast<size_t>(size));
}

}  // namespace tahmin::kernels
#endif  // HWY_ONCE
