#include "kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/half_rows.cc"
#include "hwy/foreach_target.h"  // re-includes this file once for each target

#include "hwy/highway.h"
#include "kernels/half_vector-inl.h"
#include "kernels/partial_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tahmin::kernels::HWY_NAMESPACE {

void FloatToHalfVectors(const float* in, size_t size, uint16_t* out) {
  size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) StoreHalf(LoadPartial(in + i, kLanes), out + i);
  if (i == size) return;
  HWY_ALIGN uint16_t tail[kLanes];
  StoreHalf(LoadPartial(in + i, size - i), tail);
  std::memcpy(out + i, tail, (size - i) * sizeof(uint16_t));
}

void HalfToFloatVectors(const uint16_t* in, size_t size, float* out) {
  size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) StorePartial(LoadHalf(in + i), out + i, kLanes);
  if (i == size) return;
  HWY_ALIGN uint16_t tail[kLanes] = {};
  std::memcpy(tail, in + i, (size - i) * sizeof(uint16_t));
  StorePartial(LoadHalf(tail), out + i, size - i);
}

}  // namespace tahmin::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tahmin::kernels {

HWY_EXPORT(FloatToHalfVectors);
HWY_EXPORT(HalfToFloatVectors);

void FloatToHalfRow(const float* in, int64_t n, uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(FloatToHalfVectors)(in, static_cast<size_t>(n), out);
}

void HalfToFloatRow(const uint16_t* in, int64_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(HalfToFloatVectors)(in, static_cast<size_t>(n), out);
}

}  // namespace tahmin::kernels
#endif  // HWY_ONCE
