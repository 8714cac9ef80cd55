// The arithmetic of one attention block in registers: scores, softmax weights, weighted values.
// Every score and every output value is one chain of multiply-adds in one lane, whatever the number
// of queries in the tile. Included once for every Highway target.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/half_vector-inl.h"
#include "kernels/kernels.h"
#include "kernels/partial_vector-inl.h"
#include "step/kv_layout.h"

#if defined(TAHMIN_KERNELS_ATTENTION_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TAHMIN_KERNELS_ATTENTION_TILES_INL_H_
#undef TAHMIN_KERNELS_ATTENTION_TILES_INL_H_
#else
#define TAHMIN_KERNELS_ATTENTION_TILES_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tahmin::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// For loops over queries and vectors of a tile. Left alone, GCC 12 unrolls them too late to keep
// their sums in registers.
#undef TAHMIN_UNROLL
#define TAHMIN_UNROLL _Pragma("GCC unroll 8")

constexpr int32_t kBlock = static_cast<int32_t>(kAttentionBlock);
constexpr int32_t kVectorsPerBlock = kBlock / static_cast<int32_t>(kLanes);

// Of the cache's elements, whose vectors become vectors of float32; at least one.
template <typename T>
constexpr int32_t kVectorsPerLine = kLanes * sizeof(T) < 64
                                        ? static_cast<int32_t>(64 / (kLanes * sizeof(T)))
                                        : 1;

HWY_INLINE FloatVector LoadCacheVector(const uint16_t* from) { return LoadHalf(from); }
HWY_INLINE FloatVector LoadCacheVector(const float* from) { return hn::LoadU(FloatTag(), from); }

// The block behind this one is brought into the second-level cache while this one is computed, a
// line for each that is read, so that memory always has some work and never much. `ahead`: elements
// from one block to the next; 0: nothing is brought.
template <typename T>
HWY_INLINE void BringLine(const T* from, int64_t ahead) {
  constexpr int kSecondLevel = 2;
  __builtin_prefetch(from + ahead, 0, kSecondLevel);
}

// scores[i][k] = queries[i] . key k, for kQueries queries and all keys of the block. Never inlined:
// among other code its sums do not keep their registers (GCC 12).
template <int32_t kQueries, typename T>
HWY_NOINLINE void ScoreTile(const float* const* queries, int32_t head_dim, const T* keys,
                            int64_t ahead, float* scores) {
  FloatVector sums[kQueries][kVectorsPerBlock];
  TAHMIN_UNROLL
  for (int32_t i = 0; i < kQueries; ++i) {
    TAHMIN_UNROLL
    for (int32_t v = 0; v < kVectorsPerBlock; ++v) sums[i][v] = hn::Zero(FloatTag());
  }
  for (int32_t d = 0; d < head_dim; ++d) {
    FloatVector factors[kQueries];
    TAHMIN_UNROLL
    for (int32_t i = 0; i < kQueries; ++i) factors[i] = hn::Set(FloatTag(), queries[i][d]);
    BringLine(keys + d * kBlock, ahead);
    TAHMIN_UNROLL
    for (int32_t v = 0; v < kVectorsPerBlock; ++v) {
      const FloatVector key = LoadCacheVector(keys + d * kBlock + v * kLanes);
      TAHMIN_UNROLL
      for (int32_t i = 0; i < kQueries; ++i) sums[i][v] = hn::MulAdd(factors[i], key, sums[i][v]);
    }
  }
  TAHMIN_UNROLL
  for (int32_t i = 0; i < kQueries; ++i) {
    TAHMIN_UNROLL
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
  const bool sees_all = first == 0 && last == kBlock;
  FloatVector weights[kVectorsPerBlock];
  FloatVector block_maximum = masked;
  TAHMIN_UNROLL
  for (int32_t v = 0; v < kVectorsPerBlock; ++v) {
    const FloatVector score = hn::LoadU(FloatTag(), scores + v * kLanes);
    weights[v] = hn::Mul(score, hn::Set(FloatTag(), scale));
    if (!sees_all) {
      const FloatVector key = hn::Iota(FloatTag(), static_cast<float>(v * kLanes));
      const auto visible = hn::And(hn::Ge(key, first_key), hn::Lt(key, end_key));
      weights[v] = hn::IfThenElse(visible, weights[v], masked);
    }
    block_maximum = hn::Max(block_maximum, weights[v]);
  }
  const FloatVector old_maximum = hn::Set(FloatTag(), maximum);
  const FloatVector new_maximum = hn::Max(old_maximum, hn::MaxOfLanes(FloatTag(), block_maximum));
  FloatVector block_sum = hn::Zero(FloatTag());
  TAHMIN_UNROLL
  for (int32_t v = 0; v < kVectorsPerBlock; ++v) {
    weights[v] = ExpKeepingNan(hn::Sub(weights[v], new_maximum));
    block_sum = hn::Add(block_sum, weights[v]);
    hn::StoreU(weights[v], FloatTag(), scores + v * kLanes);
  }
  // In a long text the maximum seldom changes: exp(0) is 1.
  FloatVector correction = hn::Set(FloatTag(), 1.0f);
  const float new_lane = hn::GetLane(new_maximum);
  if (!(new_lane == maximum && std::isfinite(new_lane)))
    correction = ExpKeepingNan(hn::Sub(old_maximum, new_maximum));
  const FloatVector new_sum =
      hn::MulAdd(hn::Set(FloatTag(), sum), correction, hn::SumOfLanes(FloatTag(), block_sum));
  maximum = new_lane;
  sum = hn::GetLane(new_sum);
  return hn::GetLane(correction);
}

// One strip of kVectors vectors: accumulated[i] = accumulated[i] * corrections[i] + weights[i] .
// values; value_rows[k]: of key k, read as far as the strip goes. ahead: see BringLine.
template <int32_t kQueries, int32_t kVectors, typename T>
HWY_INLINE void ValueStrip(float* const* accumulated, int64_t d, const float* corrections,
                           const float* weights, int32_t first, int32_t last,
                           const T* const* value_rows, int64_t ahead) {
  FloatVector sums[kQueries][kVectors];
  TAHMIN_UNROLL
  for (int32_t i = 0; i < kQueries; ++i) {
    const FloatVector correction = hn::Set(FloatTag(), corrections[i]);
    TAHMIN_UNROLL
    for (int32_t v = 0; v < kVectors; ++v) {
      sums[i][v] = hn::Mul(hn::LoadU(FloatTag(), accumulated[i] + d + v * kLanes), correction);
    }
  }
  for (int32_t k = first; k < last; ++k) {
    FloatVector factors[kQueries];
    TAHMIN_UNROLL
    for (int32_t i = 0; i < kQueries; ++i) {
      factors[i] = hn::Set(FloatTag(), weights[i * kBlock + k]);
    }
    TAHMIN_UNROLL
    for (int32_t v = 0; v < kVectors; v += kVectorsPerLine<T>)
      BringLine(value_rows[k] + d + v * kLanes, ahead);
    TAHMIN_UNROLL
    for (int32_t v = 0; v < kVectors; ++v) {
      const FloatVector value = LoadCacheVector(value_rows[k] + d + v * kLanes);
      TAHMIN_UNROLL
      for (int32_t i = 0; i < kQueries; ++i) sums[i][v] = hn::MulAdd(factors[i], value, sums[i][v]);
    }
  }
  TAHMIN_UNROLL
  for (int32_t i = 0; i < kQueries; ++i) {
    TAHMIN_UNROLL
    for (int32_t v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[i][v], FloatTag(), accumulated[i] + d + v * kLanes);
    }
  }
}

}  // namespace tahmin::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
