// The arithmetic of one attention block in registers: scores, softmax weights, weighted values.
// Every score and every output value is one chain of multiply-adds in one lane, whatever the number
// of queries in the tile. Included once for every Highway target.
#include <cstddef>
#include <cstdint>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/half_vector-inl.h"
#include "kernels/kernels.h"
#include "kernels/partial_vector-inl.h"

#if defined(TAHMIN_KERNELS_ATTENTION_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TAHMIN_KERNELS_ATTENTION_TILES_INL_H_
#undef TAHMIN_KERNELS_ATTENTION_TILES_INL_H_
#else
#define TAHMIN_KERNELS_ATTENTION_TILES_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tahmin::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int32_t kBlock = static_cast<int32_t>(kAttentionBlock);
constexpr int32_t kVectorsPerBlock = kBlock / static_cast<int32_t>(kLanes);

// scores[i][k] = queries[i] . key k, for kQueries queries and all keys of the block. Never inlined:
// among other code its sums do not keep their registers (GCC 12).
template <int32_t kQueries>
HWY_NOINLINE void ScoreTile(const float* const* queries, int32_t head_dim, const float* keys,
                            float* scores) {
  FloatVector sums[kQueries][kVectorsPerBlock];
  for (int32_t i = 0; i < kQueries; ++i) {
    for (int32_t v = 0; v < kVectorsPerBlock; ++v) sums[i][v] = hn::Zero(FloatTag());
  }
  for (int32_t d = 0; d < head_dim; ++d) {
    FloatVector factors[kQueries];
    for (int32_t i = 0; i < kQueries; ++i) factors[i] = hn::Set(FloatTag(), queries[i][d]);
    for (int32_t v = 0; v < kVectorsPerBlock; ++v) {
      const FloatVector key = hn::LoadU(FloatTag(), keys + d * kBlock + v * kLanes);
      for (int32_t i = 0; i < kQueries; ++i) sums[i][v] = hn::MulAdd(factors[i], key, sums[i][v]);
    }
  }
  for (int32_t i = 0; i < kQueries; ++i) {
    for (int32_t v = 0; v < kVectorsPerBlock; ++v) {
      hn::StoreU(sums[i][v], FloatTag(), scores + i * kBlock + v * kLanes);
    }
  }
}

// Highway's Exp gives 0 for NaN; a NaN must stay one, so that it is seen in the logits.
HWY_INLINE FloatVector ExpKeepingNan(FloatVector x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(FloatTag(), x));
}

// Scores of one block to weights relative to the running maximum, which is updated together with
// the running sum. Keys outside [first, last) get weight 0. Returns what older sums are multiplied
// by.
HWY_INLINE float UpdateSoftmax(float* scores, float scale, int32_t first, int32_t last,
                               float& maximum, float& sum) {
  const FloatVector masked = hn::Set(FloatTag(), -std::numeric_limits<float>::infinity());
  const FloatVector first_key = hn::Set(FloatTag(), static_cast<float>(first));
  const FloatVector end_key = hn::Set(FloatTag(), static_cast<float>(last));
  FloatVector weights[kVectorsPerBlock];
  FloatVector block_maximum = masked;
  for (int32_t v = 0; v < kVectorsPerBlock; ++v) {
    const FloatVector key = hn::Iota(FloatTag(), static_cast<float>(v * kLanes));
    const auto visible = hn::And(hn::Ge(key, first_key), hn::Lt(key, end_key));
    const FloatVector score = hn::LoadU(FloatTag(), scores + v * kLanes);
    weights[v] = hn::IfThenElse(visible, hn::Mul(score, hn::Set(FloatTag(), scale)), masked);
    block_maximum = hn::Max(block_maximum, weights[v]);
  }
  const FloatVector old_maximum = hn::Set(FloatTag(), maximum);
  const FloatVector new_maximum = hn::Max(old_maximum, hn::MaxOfLanes(FloatTag(), block_maximum));
  FloatVector block_sum = hn::Zero(FloatTag());
  for (int32_t v = 0; v < kVectorsPerBlock; ++v) {
    weights[v] = ExpKeepingNan(hn::Sub(weights[v], new_maximum));
    block_sum = hn::Add(block_sum, weights[v]);
    hn::StoreU(weights[v], FloatTag(), scores + v * kLanes);
  }
  const FloatVector correction = ExpKeepingNan(hn::Sub(old_maximum, new_maximum));
  const FloatVector new_sum =
      hn::MulAdd(hn::Set(FloatTag(), sum), correction, hn::SumOfLanes(FloatTag(), block_sum));
  maximum = hn::GetLane(new_maximum);
  sum = hn::GetLane(new_sum);
  return hn::GetLane(correction);
}

HWY_INLINE FloatVector LoadCacheVector(const uint16_t* from) { return LoadHalf(from); }
HWY_INLINE FloatVector LoadCacheVector(const float* from) { return hn::LoadU(FloatTag(), from); }

// One strip of kVectors vectors: accumulated[i] = accumulated[i] * corrections[i] + weights[i] .
// values; value_rows[k]: of key k, read as far as the strip goes.
template <int32_t kQueries, int32_t kVectors, typename T>
HWY_INLINE void ValueStrip(float* const* accumulated, int64_t d, const float* corrections,
                           const float* weights, int32_t first, int32_t last,
                           const T* const* value_rows) {
  FloatVector sums[kQueries][kVectors];
  for (int32_t i = 0; i < kQueries; ++i) {
    const FloatVector correction = hn::Set(FloatTag(), corrections[i]);
    for (int32_t v = 0; v < kVectors; ++v) {
      sums[i][v] = hn::Mul(hn::LoadU(FloatTag(), accumulated[i] + d + v * kLanes), correction);
    }
  }
  for (int32_t k = first; k < last; ++k) {
    FloatVector factors[kQueries];
    for (int32_t i = 0; i < kQueries; ++i) {
      factors[i] = hn::Set(FloatTag(), weights[i * kBlock + k]);
    }
    for (int32_t v = 0; v < kVectors; ++v) {
      const FloatVector value = LoadCacheVector(value_rows[k] + d + v * kLanes);
      for (int32_t i = 0; i < kQueries; ++i) sums[i][v] = hn::MulAdd(factors[i], value, sums[i][v]);
    }
  }
  for (int32_t i = 0; i < kQueries; ++i) {
    for (int32_t v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[i][v], FloatTag(), accumulated[i] + d + v * kLanes);
    }
  }
}

}  // namespace tahmin::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
