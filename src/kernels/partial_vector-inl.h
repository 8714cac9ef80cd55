// Vectors of which only the first few lanes exist in memory: the tails of rows. Loaded with zeros
// behind, so that a tail runs through the very code of a full vector. Included once for every
// Highway target.
#include <cstddef>
#include <cstring>

#include "hwy/highway.h"

#if defined(TAHMIN_KERNELS_PARTIAL_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TAHMIN_KERNELS_PARTIAL_VECTOR_INL_H_
#undef TAHMIN_KERNELS_PARTIAL_VECTOR_INL_H_
#else
#define TAHMIN_KERNELS_PARTIAL_VECTOR_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tahmin::kernels::HWY_NAMESPACE {

using FloatTag = hwy::HWY_NAMESPACE::CappedTag<float, 16>;
using FloatVector = hwy::HWY_NAMESPACE::Vec<FloatTag>;
constexpr size_t kLanes = hwy::HWY_NAMESPACE::MaxLanes(FloatTag());

// The first min(count, kLanes) lanes from memory, zeros behind.
HWY_INLINE FloatVector LoadPartial(const float* from, size_t count) {
  if (count >= kLanes) return hwy::HWY_NAMESPACE::LoadU(FloatTag(), from);
  HWY_ALIGN float lanes[kLanes] = {};
  std::memcpy(lanes, from, count * sizeof(float));
  return hwy::HWY_NAMESPACE::Load(FloatTag(), lanes);
}

// The first min(count, kLanes) lanes to memory, nothing behind them touched.
HWY_INLINE void StorePartial(FloatVector vector, float* to, size_t count) {
  if (count >= kLanes) {
    hwy::HWY_NAMESPACE::StoreU(vector, FloatTag(), to);
    return;
  }
  HWY_ALIGN float lanes[kLanes];
  hwy::HWY_NAMESPACE::Store(vector, FloatTag(), lanes);
  std::memcpy(to, lanes, count * sizeof(float));
}

}  // namespace tahmin::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
