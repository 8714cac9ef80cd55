#include "kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/add.cc"
#include "hwy/foreach_target.h"  // re-includes this file once for each target

#include "hwy/highway.h"
#include "kernels/partial_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tahmin::kernels::HWY_NAMESPACE {

void AddRow(float* x, const float* y, size_t size) {
  for (size_t i = 0; i < size; i += kLanes) {
    const size_t count = size - i;
    StorePartial(hwy::HWY_NAMESPACE::Add(LoadPartial(x + i, count), LoadPartial(y + i, count)),
                 x + i, count);
  }
}

}  // namespace tahmin::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tahmin::kernels {

HWY_EXPORT(AddRow);

void Add(float* x, const float* y, int64_t size) {
  HWY_DYNAMIC_DISPATCH(AddRow)(x, y, static_cast<size_t>(size));
}

}  // namespace tahmin::kernels
#endif  // HWY_ONCE
