#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul_float.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "kernels/matmul_float.h"

HWY_BEFORE_NAMESPACE();
namespace tahmin::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using FloatTag = hn::CappedTag<float, 16>;
using FloatVec = hn::VFromD<FloatTag>;

// f16 to f32, exact for every bit pattern (Highway's own conversion is not, on targets without the
// instruction): the exponent is moved by a multiplication with 2^112, infinity and NaN by bits.
FloatVec HalfBitsToFloat(hn::VFromD<hn::RebindToUnsigned<FloatTag>> half) {
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> du;
  const auto magnitude = hn::And(half, hn::Set(du, 0x7FFF));
  const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(du, 0x8000)));
  const auto scaled = hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(magnitude)),
                              hn::BitCast(d, hn::Set(du, (127u + 112u) << 23)));
  const hn::RebindToSigned<FloatTag> di;
  const auto is_special = hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, 0x7BFF));
  const auto special = hn::IfThenElseZero(hn::RebindMask(du, is_special), hn::Set(du, 0x7F800000));
  return hn::BitCast(d, hn::Or(hn::Or(hn::BitCast(du, scaled), special), sign));
}

struct HalfWeights {
  using Element = uint16_t;
  static FloatVec Load(const uint16_t* bits) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
    const hn::Rebind<hwy::float16_t, FloatTag> dh;
    return hn::PromoteTo(FloatTag(), hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(bits)));
#else
    const hn::Rebind<uint16_t, FloatTag> d16;
    const hn::RebindToUnsigned<FloatTag> du;
    return HalfBitsToFloat(hn::PromoteTo(du, hn::LoadU(d16, bits)));
#endif
  }
};

struct BfloatWeights {
  using Element = uint16_t;
  static FloatVec Load(const uint16_t* bits) {
    const FloatTag d;
    const hn::Rebind<uint16_t, FloatTag> d16;
    const hn::RebindToUnsigned<FloatTag> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, bits))));
  }
};

struct FloatWeights {
  using Element = float;
  static FloatVec Load(const float* values) { return hn::LoadU(FloatTag(), values); }
};

// Adds column k of the weights to the partial sum of each row.
template <typename Weights>
HWY_INLINE void AddColumn(const typename Weights::Element* weights, const float* x0,
                          const float* x1, int64_t k, FloatVec& sum0, FloatVec& sum1) {
  const FloatTag d;
  const FloatVec w = Weights::Load(weights + k * kRowGroup);
  sum0 = hn::MulAdd(w, hn::Set(d, x0[k]), sum0);
  sum1 = hn::MulAdd(w, hn::Set(d, x1[k]), sum1);
}

// Two rows (or one row twice) times one vector of lanes.
template <typename Weights>
void TwoRows(const typename Weights::Element* weights, int64_t columns, const float* x0,
             const float* x1, float* out0, float* out1) {
  const FloatTag d;
  FloatVec a0 = hn::Zero(d), a1 = a0, a2 = a0, a3 = a0;
  FloatVec b0 = a0, b1 = a0, b2 = a0, b3 = a0;
  int64_t k = 0;
  for (; k + 4 <= columns; k += 4) {
    AddColumn<Weights>(weights, x0, x1, k, a0, b0);
    AddColumn<Weights>(weights, x0, x1, k + 1, a1, b1);
    AddColumn<Weights>(weights, x0, x1, k + 2, a2, b2);
    AddColumn<Weights>(weights, x0, x1, k + 3, a3, b3);
  }
  if (k < columns) AddColumn<Weights>(weights, x0, x1, k, a0, b0);
  if (k + 1 < columns) AddColumn<Weights>(weights, x0, x1, k + 1, a1, b1);
  if (k + 2 < columns) AddColumn<Weights>(weights, x0, x1, k + 2, a2, b2);
  hn::Store(hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)), d, out0);
  hn::Store(hn::Add(hn::Add(b0, b1), hn::Add(b2, b3)), d, out1);
}

template <typename Weights>
void RunGroup(const FloatGroupPass& pass) {
  using Element = typename Weights::Element;
  const Element* weights = reinterpret_cast<const Element*>(pass.group);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(FloatTag()));
  for (int64_t lane = 0; lane < kRowGroup; lane += lanes) {
    for (int32_t row = 0; row < pass.num_rows; row += 2) {
      const int32_t next = row + 1 < pass.num_rows ? row + 1 : row;
      TwoRows<Weights>(weights + lane, pass.columns, pass.rows[row], pass.rows[next],
                       pass.out + row * kRowGroup + lane, pass.out + next * kRowGroup + lane);
    }
  }
}

void FloatGroup(const FloatGroupPass& pass) {
  switch (pass.layout) {
    case PackedLayout::kF16:
      return RunGroup<HalfWeights>(pass);
    case PackedLayout::kBF16:
      return RunGroup<BfloatWeights>(pass);
    default:
      return RunGroup<FloatWeights>(pass);
  }
}

}  // namespace
}  // namespace tahmin::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tahmin::kernels {
namespace {

HWY_EXPORT(FloatGroup);

}  // namespace

void FloatMatMulGroup(const FloatGroupPass& pass) { HWY_DYNAMIC_DISPATCH(FloatGroup)(pass); }

}  // namespace tahmin::kernels
#endif
