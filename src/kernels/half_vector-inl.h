// float16 bit patterns to and from a vector of floats, exact on every target. Highway 1.0.3's
// emulated conversions (SCALAR, EMU128) are wrong at infinity, at the rounding edge 65520 and for
// some subnormals, so those targets take the scalar form. Included once for every Highway target.
#include <cstddef>
#include <cstdint>

#include "base/half.h"
#include "hwy/highway.h"
#include "kernels/partial_vector-inl.h"

#if defined(TAHMIN_KERNELS_HALF_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TAHMIN_KERNELS_HALF_VECTOR_INL_H_
#undef TAHMIN_KERNELS_HALF_VECTOR_INL_H_
#else
#define TAHMIN_KERNELS_HALF_VECTOR_INL_H_
#endif

#undef TAHMIN_SCALAR_HALF
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SSE4 || \
    HWY_TARGET == HWY_SSSE3
#define TAHMIN_SCALAR_HALF 1
#else
#define TAHMIN_SCALAR_HALF 0
#endif

HWY_BEFORE_NAMESPACE();
namespace tahmin::kernels::HWY_NAMESPACE {

// kLanes values.
HWY_INLINE FloatVector LoadHalf(const uint16_t* from) {
  namespace hn = hwy::HWY_NAMESPACE;
#if TAHMIN_SCALAR_HALF
  HWY_ALIGN float lanes[kLanes];
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = HalfToFloat(from[i]);
  return hn::Load(FloatTag(), lanes);
#else
  const hn::Rebind<hwy::float16_t, FloatTag> half_tag;
  return hn::PromoteTo(FloatTag(),
                       hn::LoadU(half_tag, reinterpret_cast<const hwy::float16_t*>(from)));
#endif
}

HWY_INLINE void StoreHalf(FloatVector vector, uint16_t* to) {
  namespace hn = hwy::HWY_NAMESPACE;
#if TAHMIN_SCALAR_HALF
  HWY_ALIGN float lanes[kLanes];
  hn::Store(vector, FloatTag(), lanes);
  for (size_t i = 0; i < kLanes; ++i) to[i] = FloatToHalf(lanes[i]);
#else
  const hn::Rebind<hwy::float16_t, FloatTag> half_tag;
  hn::StoreU(hn::DemoteTo(half_tag, vector), half_tag, reinterpret_cast<hwy::float16_t*>(to));
#endif
}

}  // namespace tahmin::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
