#include "model/two_bit_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/status_macros.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/two_bit_rows.cc"
#include "hwy/foreach_target.h"  // re-includes this file once for each target

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tahmin::HWY_NAMESPACE {
namespace {

// Sums of code times x over each row.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL

// x86 multiplies unsigned with signed bytes and adds pairs, which Highway has no name for yet.
// Codes of at most 3 times values of at most 127: sums of four pairs stay below 2^15 for ten
// vectors.
constexpr int64_t kLanes = 32;
constexpr int64_t kRunBytes = 10 * kLanes;
constexpr int64_t kPrefetchBytes = 2048;

template <int k>
HWY_INLINE __m256i Products(__m256i packed, const int8_t* x) {
  const __m256i codes = _mm256_and_si256(_mm256_srli_epi16(packed, 2 * k), _mm256_set1_epi8(3));
  return _mm256_maddubs_epi16(codes, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
}

__m256i RowProducts(const uint8_t* codes, const int8_t* x, int64_t row_bytes) {
  __m256i total = _mm256_setzero_si256();
  for (int64_t run = 0; run < row_bytes; run += kRunBytes) {
    const int64_t end = std::min(row_bytes, run + kRunBytes);
    __m256i sum = _mm256_setzero_si256(), other = sum;
    for (int64_t b = run; b < end; b += kLanes) {
      // Past the end of the matrix it reads nothing.
      _mm_prefetch(reinterpret_cast<const char*>(codes + b + kPrefetchBytes), _MM_HINT_T0);
      const __m256i packed = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + b));
      sum = _mm256_add_epi16(sum, Products<0>(packed, x + b));
      other = _mm256_add_epi16(other, Products<1>(packed, x + row_bytes + b));
      sum = _mm256_add_epi16(sum, Products<2>(packed, x + 2 * row_bytes + b));
      other = _mm256_add_epi16(other, Products<3>(packed, x + 3 * row_bytes + b));
    }
    const __m256i pairs = _mm256_madd_epi16(_mm256_add_epi16(sum, other), _mm256_set1_epi16(1));
    total = _mm256_add_epi32(total, pairs);
  }
  return total;
}

// Four rows share the sums over lanes.
void FourRows(const uint8_t* codes, const int8_t* x, int64_t row_bytes, int32_t* out) {
  const __m256i row0 = RowProducts(codes, x, row_bytes);
  const __m256i row1 = RowProducts(codes + row_bytes, x, row_bytes);
  const __m256i row2 = RowProducts(codes + 2 * row_bytes, x, row_bytes);
  const __m256i row3 = RowProducts(codes + 3 * row_bytes, x, row_bytes);
  const __m256i sums =
      _mm256_hadd_epi32(_mm256_hadd_epi32(row0, row1), _mm256_hadd_epi32(row2, row3));
  const __m128i total =
      _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), total);
}

#else

int32_t RowProducts(const uint8_t* codes, const int8_t* x, int64_t row_bytes) {
  int32_t total = 0;
  for (int64_t b = 0; b < row_bytes; ++b) {
    const int32_t code = codes[b];
    total += (code & 3) * x[b] + (code >> 2 & 3) * x[row_bytes + b] +
             (code >> 4 & 3) * x[2 * row_bytes + b] + (code >> 6) * x[3 * row_bytes + b];
  }
  return total;
}

void FourRows(const uint8_t* codes, const int8_t* x, int64_t row_bytes, int32_t* out) {
  for (int row = 0; row < 4; ++row) out[row] = RowProducts(codes + row * row_bytes, x, row_bytes);
}

#endif

}  // namespace

// num_rows is a multiple of four.
void MultiplyCodes(const uint8_t* codes, const int8_t* x, int64_t row_bytes, int64_t num_rows,
                   int32_t* out) {
  for (int64_t row = 0; row < num_rows; row += 4) {
    FourRows(codes + row * row_bytes, x, row_bytes, out + row);
  }
}

// Sets the codes of one row of at most 4 row_bytes values; its bytes are zero. fit[0]: the sum of
// magnitudes times their levels, fit[1]: that of the levels' squares.
void SetCodes(std::span<const float> values, float border, int64_t row_bytes, uint8_t* bytes,
              float (&fit)[2]) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::CappedTag<float, 8> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const auto num_lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto columns = static_cast<int64_t>(values.size());
  auto products = hn::Zero(d), squares = hn::Zero(d);
  fit[0] = fit[1] = 0;
  for (int plane = 0; plane * row_bytes < columns; ++plane) {
    const float* run = values.data() + plane * row_bytes;
    const int64_t count = std::min(row_bytes, columns - plane * row_bytes);
    // Codes 0 to 3 are the levels -3, -1, 1 and 3.
    const auto code = [d, plane](float value) HWY_ATTR {
      return hn::Set(d, value * static_cast<float>(1 << 2 * plane));
    };
    int64_t i = 0;
    for (; i + num_lanes <= count; i += num_lanes) {
      const auto value = hn::LoadU(d, run + i), magnitude = hn::Abs(value);
      const auto is_outer = hn::Gt(magnitude, hn::Set(d, border));
      const auto level = hn::IfThenElse(is_outer, hn::Set(d, 3), hn::Set(d, 1));
      products = hn::Add(products, hn::Mul(magnitude, level));
      squares = hn::Add(squares, hn::Mul(level, level));
      const auto codes =
          hn::IfThenElse(hn::Lt(value, hn::Zero(d)), hn::IfThenElse(is_outer, code(0), code(1)),
                         hn::IfThenElse(is_outer, code(3), code(2)));
      const auto others = hn::LoadU(d8, bytes + i);
      hn::StoreU(hn::Or(others, hn::DemoteTo(d8, hn::ConvertTo(di, codes))), d8, bytes + i);
    }
    for (; i < count; ++i) {
      const int outer = std::abs(run[i]) > border ? 1 : 0;
      const int code = run[i] < 0 ? 1 - outer : 2 + outer;
      bytes[i] = static_cast<uint8_t>(bytes[i] | code << 2 * plane);
      fit[0] += std::abs(run[i]) * static_cast<float>(1 + 2 * outer);
      fit[1] += static_cast<float>(1 + 8 * outer);
    }
  }
  fit[0] += hn::GetLane(hn::SumOfLanes(d, products));
  fit[1] += hn::GetLane(hn::SumOfLanes(d, squares));
}

}  // namespace tahmin::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tahmin {
namespace {

HWY_EXPORT(MultiplyCodes);
HWY_EXPORT(SetCodes);

constexpr int64_t kCodesOfAByte = 4;
constexpr int64_t kRowStep = 4;
constexpr int64_t kByteStep = 32;  // the widest vector
constexpr float kPeak = 127;

float Dot(const float* a, const float* b, int64_t size) {
  float lanes[8] = {};
  int64_t i = 0;
  for (; i + 8 <= size; i += 8) {
    for (int64_t j = 0; j < 8; ++j) lanes[j] += a[i + j] * b[i + j];
  }
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  for (; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

int64_t RowBytes(int64_t columns) {
  const int64_t bytes = (columns + kCodesOfAByte - 1) / kCodesOfAByte;
  return (bytes + kByteStep - 1) / kByteStep * kByteStep;
}

int64_t PaddedRows(int64_t rows) { return (rows + kRowStep - 1) / kRowStep * kRowStep; }

}  // namespace

size_t TwoBitRows::Bytes(int64_t rows, int64_t columns) {
  return static_cast<size_t>(PaddedRows(rows)) *
         (static_cast<size_t>(RowBytes(columns)) + sizeof(float));
}

absl::StatusOr<TwoBitRows> TwoBitRows::Create(int64_t rows, int64_t columns) {
  TAHMIN_CHECK(rows >= 1 && columns >= 1 && columns <= kMostColumns);
  TwoBitRows matrix;
  matrix.rows_ = rows;
  matrix.columns_ = columns;
  matrix.row_bytes_ = RowBytes(columns);
  TAHMIN_ASSIGN_OR_RETURN(
      matrix.codes_,
      AlignedBuffer::Create(static_cast<size_t>(PaddedRows(rows) * matrix.row_bytes_)));
  TAHMIN_ASSIGN_OR_RETURN(
      matrix.scales_, AlignedBuffer::Create(static_cast<size_t>(PaddedRows(rows)) * sizeof(float)));
  return matrix;
}

void TwoBitRows::SetRow(int64_t row, std::span<const float> values) {
  TAHMIN_CHECK(row >= 0 && row < rows_ && static_cast<int64_t>(values.size()) == columns_);
  // The best border between inner and outer levels of normal values is nearly their spread.
  const float border =
      std::sqrt(Dot(values.data(), values.data(), columns_) / static_cast<float>(columns_));
  uint8_t* bytes = codes_.data() + row * row_bytes_;
  std::fill_n(bytes, row_bytes_, uint8_t{0});
  float fit[2];
  HWY_DYNAMIC_DISPATCH(SetCodes)(values, border, row_bytes_, bytes, fit);
  scales_.As<float>()[static_cast<size_t>(row)] = fit[0] / fit[1];
}

TwoBitRows::Input TwoBitRows::MakeInput() const {
  Input input;
  input.values.resize(static_cast<size_t>(kCodesOfAByte * row_bytes_));
  return input;
}

void TwoBitRows::Quantize(std::span<const float> x, Input& input) const {
  TAHMIN_CHECK(static_cast<int64_t>(x.size()) == columns_);
  TAHMIN_CHECK(static_cast<int64_t>(input.values.size()) == kCodesOfAByte * row_bytes_);
  float peak = 0, total = 0;
  for (const float value : x) {
    peak = std::max(peak, std::abs(value));
    total += std::abs(value);
  }
  input.sum = 0;
  if (!(total < std::numeric_limits<float>::infinity())) {
    std::fill(input.values.begin(), input.values.end(), int8_t{0});
    input.scale = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  const float inverse = peak > 1e-30f ? kPeak / peak : 0;
  input.scale = peak / kPeak;
  for (size_t i = 0; i < x.size(); ++i) {
    input.values[i] = static_cast<int8_t>(std::lrintf(x[i] * inverse));
    input.sum += input.values[i];
  }
}

void TwoBitRows::Multiply(const Input& input, float* out, ThreadPool& pool) const {
  constexpr int64_t kRowsOfATask = 256;
  const uint8_t* codes = codes_.data();
  const float* scales = scales_.As<float>().data();
  pool.ParallelFor((rows_ + kRowsOfATask - 1) / kRowsOfATask, [&](int64_t task, int) {
    const int64_t begin = task * kRowsOfATask;
    const int64_t count = std::min(kRowsOfATask, rows_ - begin);
    int32_t products[kRowsOfATask];
    HWY_DYNAMIC_DISPATCH(MultiplyCodes)
    (codes + begin * row_bytes_, input.values.data(), row_bytes_, PaddedRows(count), products);
    for (int64_t i = 0; i < count; ++i) {
      const auto levels = static_cast<float>(2 * products[i] - 3 * input.sum);
      out[begin + i] = scales[begin + i] * input.scale * levels;
    }
  });
}

}  // namespace tahmin
#endif  // HWY_ONCE
