#include "kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/rope.cc"
#include "hwy/foreach_target.h"  // re-includes this file once for each target

#include "hwy/highway.h"
#include "kernels/partial_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tahmin::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE void Rotate(FloatVector& a, FloatVector& b, FloatVector cosine, FloatVector sine) {
  const FloatVector rotated_a = hn::MulSub(a, cosine, hn::Mul(b, sine));
  b = hn::MulAdd(a, sine, hn::Mul(b, cosine));
  a = rotated_a;
}

void RotateNeox(float* head, size_t num_pairs, const RopeTable& table) {
  for (size_t i = 0; i < num_pairs; i += kLanes) {
    const size_t count = num_pairs - i;
    FloatVector a = LoadPartial(head + i, count);
    FloatVector b = LoadPartial(head + num_pairs + i, count);
    Rotate(a, b, LoadPartial(table.cosines + i, count), LoadPartial(table.sines + i, count));
    StorePartial(a, head + i, count);
    StorePartial(b, head + num_pairs + i, count);
  }
}

void RotateInterleaved(float* head, size_t num_pairs, const RopeTable& table) {
  HWY_ALIGN float tail[2 * kLanes] = {};
  for (size_t i = 0; i < num_pairs; i += kLanes) {
    const size_t count = num_pairs - i;
    const bool is_tail = count < kLanes;
    float* pairs = is_tail ? tail : head + 2 * i;
    if (is_tail) std::memcpy(tail, head + 2 * i, 2 * count * sizeof(float));
    FloatVector a, b;
    hn::LoadInterleaved2(FloatTag(), pairs, a, b);
    Rotate(a, b, LoadPartial(table.cosines + i, count), LoadPartial(table.sines + i, count));
    hn::StoreInterleaved2(a, b, FloatTag(), pairs);
    if (is_tail) std::memcpy(head + 2 * i, tail, 2 * count * sizeof(float));
  }
}

void RopeRow(float* heads, int32_t num_heads, int32_t head_dim, int32_t rotary_dimensions,
             RopeStyle style, const RopeTable& table) {
  const size_t num_pairs = static_cast<size_t>(rotary_dimensions) / 2;
  for (int32_t h = 0; h < num_heads; ++h) {
    float* head = heads + static_cast<int64_t>(h) * head_dim;
    if (style == RopeStyle::kNeox) {
      RotateNeox(head, num_pairs, table);
    } else {
      RotateInterleaved(head, num_pairs, table);
    }
  }
}

}  // namespace tahmin::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tahmin::kernels {

HWY_EXPORT(RopeRow);

void Rope(float* heads, int32_t num_heads, int32_t head_dim, int32_t rotary_dimensions,
          RopeStyle style, const RopeTable& table) {
  HWY_DYNAMIC_DISPATCH(RopeRow)(heads, num_heads, head_dim, rotary_dimensions, style, table);
}

}  // namespace tahmin::kernels
#endif  // HWY_ONCE
