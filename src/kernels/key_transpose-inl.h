// Keys of one attention block, from the cache's rows to float32 [head_dim, kAttentionBlock]: one
// lane per key. Included once for every Highway target.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/half.h"
#include "hwy/highway.h"
#include "kernels/half_vector-inl.h"
#include "kernels/kernels.h"

#if defined(TAHMIN_KERNELS_KEY_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TAHMIN_KERNELS_KEY_TRANSPOSE_INL_H_
#undef TAHMIN_KERNELS_KEY_TRANSPOSE_INL_H_
#else
#define TAHMIN_KERNELS_KEY_TRANSPOSE_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tahmin::kernels::HWY_NAMESPACE {

constexpr int32_t kTransposeStep = 8;  // keys and dimensions moved at a time

HWY_INLINE float CacheValue(uint16_t bits) { return HalfToFloat(bits); }
HWY_INLINE float CacheValue(float value) { return value; }

// Dimensions [begin, end) of eight keys, one value at a time.
template <typename T>
HWY_INLINE void TransposeScalar(const T* const* rows, int32_t begin, int32_t end, float* out) {
  for (int32_t d = begin; d < end; ++d) {
    for (int32_t i = 0; i < kTransposeStep; ++i)
      out[d * kAttentionBlock + i] = CacheValue(rows[i][d]);
  }
}

// Whole steps of dimensions by vector code; returns how many dimensions are done.
HWY_INLINE int32_t TransposeVectors(const float* const* rows, int32_t head_dim, float* out) {
  return 0;
}

#if TAHMIN_SCALAR_HALF
HWY_INLINE int32_t TransposeVectors(const uint16_t* const* rows, int32_t head_dim, float* out) {
  return 0;
}
#else
HWY_INLINE void StoreEightHalves(
    hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::FixedTag<uint64_t, 2> > v, float* out) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_MAX_BYTES >= 32
  const hn::FixedTag<float, 8> float_tag;
  const auto halves = hn::BitCast(hn::FixedTag<hwy::float16_t, 8>(), v);
  hn::StoreU(hn::PromoteTo(float_tag, halves), float_tag, out);
#else
  const hn::FixedTag<float, 4> float_tag;
  const hn::FixedTag<hwy::float16_t, 4> half_tag;
  const hn::FixedTag<uint16_t, 4> bits_tag;  // on Arm, float16 vectors cannot be halved
  const auto bits = hn::BitCast(hn::FixedTag<uint16_t, 8>(), v);
  const auto low = hn::BitCast(half_tag, hn::LowerHalf(bits_tag, bits));
  const auto high = hn::BitCast(half_tag, hn::UpperHalf(bits_tag, bits));
  hn::StoreU(hn::PromoteTo(float_tag, low), float_tag, out);
  hn::StoreU(hn::PromoteTo(float_tag, high), float_tag, out + 4);
#endif
}

// An 8 x 8 transpose of 16-bit values in three rounds of interleaving, then the conversion.
HWY_INLINE void TransposeStep(const uint16_t* const* rows, int32_t d, float* out) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::FixedTag<uint16_t, 8> tag16;
  const hn::FixedTag<uint32_t, 4> tag32;
  const hn::FixedTag<uint64_t, 2> tag64;
  hn::Vec<hn::FixedTag<uint32_t, 4> >
      pairs[8];  // [2i]: dimensions 0-3 of keys 2i, 2i+1; [2i+1]: 4-7
  for (int32_t i = 0; i < 4; ++i) {
    const auto even = hn::LoadU(tag16, rows[2 * i] + d);
    const auto odd = hn::LoadU(tag16, rows[2 * i + 1] + d);
    pairs[2 * i] = hn::BitCast(tag32, hn::InterleaveLower(tag16, even, odd));
    pairs[2 * i + 1] = hn::BitCast(tag32, hn::InterleaveUpper(tag16, even, odd));
  }
  float* to = out + d * kAttentionBlock;
  for (int32_t half = 0; half < 2; ++half) {  // dimensions 0-3, then 4-7
    const auto low01 = hn::InterleaveLower(tag32, pairs[half], pairs[2 + half]);
    const auto low23 = hn::InterleaveUpper(tag32, pairs[half], pairs[2 + half]);
    const auto high01 = hn::InterleaveLower(tag32, pairs[4 + half], pairs[6 + half]);
    const auto high23 = hn::InterleaveUpper(tag32, pairs[4 + half], pairs[6 + half]);
    const auto low01_64 = hn::BitCast(tag64, low01), high01_64 = hn::BitCast(tag64, high01);
    const auto low23_64 = hn::BitCast(tag64, low23), high23_64 = hn::BitCast(tag64, high23);
    StoreEightHalves(hn::InterleaveLower(tag64, low01_64, high01_64), to);
    StoreEightHalves(hn::InterleaveUpper(tag64, low01_64, high01_64), to + kAttentionBlock);
    StoreEightHalves(hn::InterleaveLower(tag64, low23_64, high23_64), to + 2 * kAttentionBlock);
    StoreEightHalves(hn::InterleaveUpper(tag64, low23_64, high23_64), to + 3 * kAttentionBlock);
    to += 4 * kAttentionBlock;
  }
}

HWY_INLINE int32_t TransposeVectors(const uint16_t* const* rows, int32_t head_dim, float* out) {
  int32_t d = 0;
  for (; d + kTransposeStep <= head_dim; d += kTransposeStep) TransposeStep(rows, d, out);
  return d;
}
#endif

// Keys [first, last) of the block; key k lies in slots[k]. Lanes of a group of eight that has no
// such key are left as they were, those beside one repeat a neighbour: nobody reads them.
template <typename T>
void TransposeKeys(const T* keys, int32_t head_dim, const int64_t* slots, int32_t first,
                   int32_t last, float* out) {
  for (int32_t k = first / kTransposeStep * kTransposeStep; k < last; k += kTransposeStep) {
    const T* rows[kTransposeStep];
    for (int32_t i = 0; i < kTransposeStep; ++i) {
      rows[i] = keys + slots[std::clamp(k + i, first, last - 1)] * head_dim;
    }
    const int32_t done = TransposeVectors(rows, head_dim, out + k);
    TransposeScalar(rows, done, head_dim, out + k);
  }
}

}  // namespace tahmin::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
