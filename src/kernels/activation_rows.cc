#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "fmt/format.h"
#include "kernels/activation_rows.h"

#ifndef TAHMIN_ACTIVATION_ROWS_ONCE
#define TAHMIN_ACTIVATION_ROWS_ONCE
namespace tahmin::kernels {
namespace {

// One quantised row to write.
struct RowOut {
  int8_t* values;
  float* scales;
  int16_t* sums16;
  int16_t* sums32;
  float* scaled_sums;
};

}  // namespace
}  // namespace tahmin::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace tahmin::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using FloatTag = hn::CappedTag<float, 16>;

// Bits of max |x|: for non-negative floats the order of the bits is the order of the numbers, with
// infinity and NaN above all finite ones.
uint32_t PeakBits(const float* x, int64_t size) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto peak = hn::Zero(di);
  for (int64_t i = 0; i < size; i += lanes) {
    peak = hn::Max(peak, hn::BitCast(di, hn::Abs(hn::Load(d, x + i))));
  }
  HWY_ALIGN int32_t all[16];
  hn::Store(peak, di, all);
  int32_t bits = 0;
  for (int64_t i = 0; i < lanes; ++i) bits = all[i] > bits ? all[i] : bits;
  return static_cast<uint32_t>(bits);
}

// Sum of squares in 16 fixed partial sums: the same bits for every vector width.
double SumOfSquares(const float* x, int64_t size) {
  const FloatTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN float partial[16];
  for (int64_t first = 0; first < 16; first += lanes) {
    auto sum = hn::Zero(d);
    for (int64_t i = first; i < size; i += 16) {
      const auto v = hn::Load(d, x + i);
      sum = hn::Add(sum, hn::Mul(v, v));
    }
    hn::Store(sum, d, partial + first);
  }
  double total = 0.0;
  for (const float p : partial) total += static_cast<double>(p);
  return total;
}

// values = round-to-nearest-even(x * inverse); error = x - scale * value, where asked for.
void QuantizeValues(const float* x, int64_t size, float scale, float inverse, int8_t* values,
                    float* error) {
  const FloatTag d;
  const hn::Rebind<int8_t, FloatTag> d8;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto v_inverse = hn::Set(d, inverse);
  const auto v_scale = hn::Set(d, scale);
  for (int64_t i = 0; i < size; i += lanes) {
    const auto v = hn::Load(d, x + i);
    const auto rounded = hn::NearestInt(hn::Mul(v, v_inverse));
    hn::StoreU(hn::DemoteTo(d8, rounded), d8, values + i);
    if (error != nullptr) {
      hn::Store(hn::Sub(v, hn::Mul(v_scale, hn::ConvertTo(d, rounded))), d, error + i);
    }
  }
}

void QuantizeBlock(const float* x, int64_t size, int8_t* values, float* scale, float* error) {
  constexpr uint32_t kInfinityBits = 0x7F800000;
  constexpr uint32_t kTinyBits = (127 - 100) << 23;  // 2^-100
  const uint32_t bits = PeakBits(x, size);
  if (bits >= kInfinityBits || bits < kTinyBits) {
    *scale = bits >= kInfinityBits ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
    std::memset(values, 0, static_cast<size_t>(size));
    if (error != nullptr) std::memset(error, 0, static_cast<size_t>(size) * sizeof(float));
    return;
  }
  float peak;
  std::memcpy(&peak, &bits, sizeof(peak));
  *scale = peak / 127.0f;
  QuantizeValues(x, size, *scale, 127.0f / peak, values, error);
}

void SumValues(const RowOut& out, int64_t columns, int64_t block) {
  for (int64_t i = 0; i < columns / 16; ++i) {
    int32_t sum = 0;
    for (int64_t k = 0; k < 16; ++k) sum += out.values[16 * i + k];
    out.sums16[i] = static_cast<int16_t>(sum);
  }
  for (int64_t i = 0; i < columns / 32; ++i) {
    const int32_t sum = out.sums16[2 * i] + out.sums16[2 * i + 1];
    out.sums32[i] = static_cast<int16_t>(sum);
    out.scaled_sums[i] = out.scales[32 * i / block] * static_cast<float>(sum);
  }
}

void QuantizeRow(const float* x, int64_t columns, int64_t block, const RowOut& out, float* error) {
  for (int64_t i = 0; i < columns / block; ++i) {
    const int64_t at = i * block;
    QuantizeBlock(x + at, block, out.values + at, out.scales + i,
                  error == nullptr ? nullptr : error + at);
  }
  SumValues(out, columns, block);
}

// True when max|x| > threshold * sqrt(mean(x^2)), all finite.
bool IsPeaked(const float* x, int64_t columns, float threshold) {
  const uint32_t bits = PeakBits(x, columns);
  if (bits >= 0x7F800000) return false;
  float peak;
  std::memcpy(&peak, &bits, sizeof(peak));
  const double p = static_cast<double>(peak);
  const double t = static_cast<double>(threshold);
  return p * p * static_cast<double>(columns) > t * t * SumOfSquares(x, columns);
}

}  // namespace
}  // namespace tahmin::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tahmin::kernels {
namespace {

HWY_EXPORT(QuantizeRow);
HWY_EXPORT(IsPeaked);

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Strides of one row, in elements. Values are padded by a line, so that rows of a power of two do
// not fall into the same cache sets.
constexpr int64_t kMinBlock = 32;
int64_t FloatStride(int64_t columns) { return RoundUp(columns, 16) + 16; }
int64_t ValueStride(int64_t columns) { return RoundUp(columns, 64) + 64; }
int64_t BlockStride(int64_t columns) { return RoundUp(columns / kMinBlock + 1, 32); }

// Each float row is followed by the room for its rounding error.
size_t FloatBytes(int64_t rows, int64_t columns) {
  return static_cast<size_t>(2 * rows * FloatStride(columns)) * sizeof(float);
}
size_t ValueBytes(int64_t rows, int64_t columns) {
  return static_cast<size_t>(2 * rows * ValueStride(columns));
}
size_t PerBlockBytes(int64_t rows, int64_t columns, size_t element_bytes) {
  return static_cast<size_t>(2 * rows * BlockStride(columns)) * element_bytes;
}

}  // namespace

size_t ActivationRows::ScratchBytes(int32_t max_rows, int64_t max_columns) {
  return FloatBytes(max_rows, max_columns) + ValueBytes(max_rows, max_columns) +
         2 * PerBlockBytes(max_rows, max_columns, sizeof(float)) +
         3 * PerBlockBytes(max_rows, max_columns, sizeof(int16_t));
}

absl::StatusOr<ActivationRows> ActivationRows::Create(int32_t max_rows, int64_t max_columns) {
  if (max_rows <= 0 || max_columns <= 0) {
    return absl::InvalidArgumentError(
        fmt::format("expected a positive number of activation rows and columns, found {} x {}",
                    max_rows, max_columns));
  }
  ActivationRows rows;
  rows.max_rows_ = max_rows;
  rows.max_columns_ = max_columns;
  const struct {
    AlignedBuffer* buffer;
    size_t num_bytes;
  } parts[] = {
      {&rows.floats_, FloatBytes(max_rows, max_columns)},
      {&rows.values_, ValueBytes(max_rows, max_columns)},
      {&rows.scales_, PerBlockBytes(max_rows, max_columns, sizeof(float))},
      {&rows.scaled_sums_, PerBlockBytes(max_rows, max_columns, sizeof(float))},
      {&rows.sums16_, 2 * PerBlockBytes(max_rows, max_columns, sizeof(int16_t))},
      {&rows.sums32_, PerBlockBytes(max_rows, max_columns, sizeof(int16_t))},
  };
  for (const auto& part : parts) {
    absl::StatusOr<AlignedBuffer> buffer = AlignedBuffer::Create(part.num_bytes);
    if (!buffer.ok()) return buffer.status();
    *part.buffer = *std::move(buffer);
  }
  rows.has_residual_.resize(static_cast<size_t>(max_rows));
  rows.quantized_rows_.reserve(static_cast<size_t>(2 * max_rows));
  return rows;
}

void ActivationRows::Begin(int32_t num_rows, int64_t columns, const ActivationFormat& format) {
  const int32_t block = format.block;
  TAHMIN_CHECK(num_rows >= 0 && num_rows <= max_rows_);
  TAHMIN_CHECK(columns > 0 && columns <= max_columns_);
  TAHMIN_CHECK(block == 32 || block == 64 || block == 128 || block == 256);
  num_rows_ = num_rows;
  columns_ = columns;
  format_ = format;
  float_stride_ = FloatStride(columns);
  value_stride_ = ValueStride(columns);
  block_stride_ = BlockStride(columns);
  quantized_rows_.clear();
}

float* ActivationRows::row(int32_t index) {
  return floats_.As<float>().data() + 2 * index * float_stride_;
}

const float* ActivationRows::row(int32_t index) const {
  return floats_.As<float>().data() + 2 * index * float_stride_;
}

void ActivationRows::QuantizeInto(int32_t slot, const float* x, float* error) {
  const RowOut out{values_.As<int8_t>().data() + slot * value_stride_,
                   scales_.As<float>().data() + slot * block_stride_,
                   sums16_.As<int16_t>().data() + slot * 2 * block_stride_,
                   sums32_.As<int16_t>().data() + slot * block_stride_,
                   scaled_sums_.As<float>().data() + slot * block_stride_};
  HWY_DYNAMIC_DISPATCH(QuantizeRow)(x, columns_, format_.block, out, error);
}

void ActivationRows::Quantize(int32_t index) {
  TAHMIN_CHECK(index >= 0 && index < num_rows_);
  TAHMIN_CHECK(columns_ % format_.block == 0);
  const float* x = row(index);
  const bool has_residual = format_.residual_threshold > 0.0f &&
                            HWY_DYNAMIC_DISPATCH(IsPeaked)(x, columns_, format_.residual_threshold);
  has_residual_[static_cast<size_t>(index)] = has_residual;
  float* error = has_residual ? row(index) + float_stride_ : nullptr;
  QuantizeInto(2 * index, x, error);
  if (has_residual) QuantizeInto(2 * index + 1, error, nullptr);
}

QuantizedRow ActivationRows::SlotView(int32_t slot) const {
  return {values_.As<int8_t>().data() + slot * value_stride_,
          scales_.As<float>().data() + slot * block_stride_,
          sums16_.As<int16_t>().data() + slot * 2 * block_stride_,
          sums32_.As<int16_t>().data() + slot * block_stride_,
          scaled_sums_.As<float>().data() + slot * block_stride_,
          slot / 2,
          slot % 2 != 0};
}

void ActivationRows::Seal() {
  quantized_rows_.clear();
  for (int32_t i = 0; i < num_rows_; ++i) {
    quantized_rows_.push_back(SlotView(2 * i));
    if (has_residual_[static_cast<size_t>(i)] != 0) quantized_rows_.push_back(SlotView(2 * i + 1));
  }
}

}  // namespace tahmin::kernels
#endif
