#include "kernels/activation_rows.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "gtest/gtest.h"
#include "kernels/isa.h"

namespace tahmin::kernels {
namespace {

std::vector<float> Noise(int64_t columns, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(columns));
  for (float& v : x) v = normal(rng);
  return x;
}

ActivationRows Quantized(const std::vector<std::vector<float>>& rows,
                         const ActivationFormat& format) {
  const int64_t columns = static_cast<int64_t>(rows[0].size());
  ActivationRows input = *ActivationRows::Create(static_cast<int32_t>(rows.size()), columns);
  input.Begin(static_cast<int32_t>(rows.size()), columns, format);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(input.row(static_cast<int32_t>(i)), rows[i].data(), rows[i].size() * 4);
    input.Quantize(static_cast<int32_t>(i));
  }
  input.Seal();
  return input;
}

// The definition, in scalar code.
void ExpectQuantizationOf(const std::vector<float>& x, int64_t block, const QuantizedRow& row) {
  for (int64_t first = 0; first < static_cast<int64_t>(x.size()); first += block) {
    float peak = 0.0f;
    for (int64_t k = first; k < first + block; ++k) peak = std::max(peak, std::fabs(x[k]));
    const float scale = peak / 127.0f;
    ASSERT_EQ(row.scales[first / block], scale);
    for (int64_t k = first; k < first + block; ++k) {
      const float expected = peak == 0.0f ? 0.0f : std::nearbyint(x[k] * (127.0f / peak));
      ASSERT_EQ(static_cast<float>(row.values[k]), expected) << "column " << k;
    }
  }
  for (size_t i = 0; i < x.size() / 32; ++i) {
    int32_t sums[2] = {0, 0};
    for (size_t k = 0; k < 32; ++k) sums[k / 16] += row.values[32 * i + k];
    ASSERT_EQ(row.sums16[2 * i], sums[0]);
    ASSERT_EQ(row.sums16[2 * i + 1], sums[1]);
    ASSERT_EQ(row.sums32[i], sums[0] + sums[1]);
    const float scale = row.scales[32 * i / static_cast<size_t>(block)];
    ASSERT_EQ(row.scaled_sums[i], scale * static_cast<float>(sums[0] + sums[1]));
  }
}

class ActivationRowsOnIsa : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override { ForceIsaForTest(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(AllIsas, ActivationRowsOnIsa, testing::ValuesIn(SupportedIsas()),
                         [](const testing::TestParamInfo<Isa>& info) {
                           return std::string(IsaName(info.param));
                         });

TEST_P(ActivationRowsOnIsa, RowsFollowTheDefinition) {
  for (const int32_t block : {32, 64, 128, 256}) {
    const std::vector<std::vector<float>> rows = {Noise(768, 1), Noise(768, 2),
                                                  std::vector<float>(768, 0.0f)};
    const ActivationRows input = Quantized(rows, {block, 0.0f});
    ASSERT_EQ(input.quantized_rows().size(), 3u);
    EXPECT_EQ(input.num_residual_rows(), 0);
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(input.quantized_rows()[i].base_row, static_cast<int32_t>(i));
      EXPECT_FALSE(input.quantized_rows()[i].is_residual);
      ExpectQuantizationOf(rows[i], block, input.quantized_rows()[i]);
    }
  }
}

TEST_P(ActivationRowsOnIsa, TiesGoToTheEvenNumber) {
  std::vector<float> x(32, 0.0f);
  x[0] = 127.0f;  // scale 1
  const float inputs[] = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f};
  const int8_t expected[] = {0, 2, 2, 0, -2, -2};
  std::copy(std::begin(inputs), std::end(inputs), x.begin() + 1);
  const ActivationRows input = Quantized({x}, {32, 0.0f});
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(input.quantized_rows()[0].values[1 + i], expected[i]);
}

TEST_P(ActivationRowsOnIsa, PeakedRowGetsTheQuantisedErrorAsResidual) {
  std::vector<float> peaked = Noise(256, 3);
  peaked[17] = 60.0f;
  const ActivationRows input = Quantized({Noise(256, 4), peaked, Noise(256, 5)}, {64, 8.0f});
  ASSERT_EQ(input.quantized_rows().size(), 4u);
  EXPECT_EQ(input.num_residual_rows(), 1);
  const QuantizedRow& base = input.quantized_rows()[1];
  const QuantizedRow& residual = input.quantized_rows()[2];
  EXPECT_FALSE(base.is_residual);
  EXPECT_TRUE(residual.is_residual);
  EXPECT_EQ(residual.base_row, 1);
  EXPECT_EQ(input.quantized_rows()[3].base_row, 2);
  std::vector<float> error(256);
  for (size_t k = 0; k < 256; ++k) {
    const float back = base.scales[k / 64] * static_cast<float>(base.values[k]);
    error[k] = peaked[k] - back;
  }
  ExpectQuantizationOf(error, 64, residual);
}

TEST_P(ActivationRowsOnIsa, ResidualIsDecidedByPeakOverRootMeanSquare) {
  std::vector<float> x(256, 1.0f);
  x[0] = 10.0f;  // rms = sqrt((255 + 100) / 256) = 1.1776, ratio 8.492
  EXPECT_EQ(Quantized({x}, {32, 8.48f}).num_residual_rows(), 1);
  EXPECT_EQ(Quantized({x}, {32, 8.50f}).num_residual_rows(), 0);
  EXPECT_EQ(Quantized({x}, {32, 0.0f}).num_residual_rows(), 0);
}

TEST_P(ActivationRowsOnIsa, NonFiniteBlockHasScaleNanAndOthersAreUntouched) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf(""),
                          -std::numeric_limits<float>::infinity()}) {
    std::vector<float> x = Noise(96, 6);
    x[40] = bad;
    const ActivationRows input = Quantized({x}, {32, 2.0f});
    EXPECT_EQ(input.num_residual_rows(), 0);
    const QuantizedRow& row = input.quantized_rows()[0];
    EXPECT_TRUE(std::isnan(row.scales[1]));
    EXPECT_FALSE(std::isnan(row.scales[0]) || std::isnan(row.scales[2]));
    for (size_t k = 32; k < 64; ++k) EXPECT_EQ(row.values[k], 0);
  }
}

TEST_P(ActivationRowsOnIsa, TinyAndHugePeaksStayInRange) {
  for (const float peak : {1e-44f, 1e-38f, 1e-30f, 1e-29f, 1e30f, 3.4e38f}) {
    std::vector<float> x(32, -peak);
    x[5] = peak / 2;
    const ActivationRows input = Quantized({x}, {32, 0.0f});
    const QuantizedRow& row = input.quantized_rows()[0];
    const bool is_zero = row.scales[0] == 0.0f;
    EXPECT_EQ(is_zero, peak < 7.8e-31f);  // 2^-100
    EXPECT_EQ(row.values[0], is_zero ? 0 : -127);
  }
}

TEST(ActivationRows, BitsAreTheSameOnEveryIsa) {
  const std::vector<Isa> isas = SupportedIsas();
  std::vector<float> peaked = Noise(512, 8);
  peaked[3] = 40.0f;
  ForceIsaForTest(isas[0]);
  const ActivationRows expected = Quantized({Noise(512, 7), peaked}, {64, 6.0f});
  for (const Isa isa : isas) {
    ForceIsaForTest(isa);
    const ActivationRows input = Quantized({Noise(512, 7), peaked}, {64, 6.0f});
    ASSERT_EQ(input.quantized_rows().size(), expected.quantized_rows().size());
    for (size_t i = 0; i < input.quantized_rows().size(); ++i) {
      const QuantizedRow& a = expected.quantized_rows()[i];
      const QuantizedRow& b = input.quantized_rows()[i];
      EXPECT_EQ(std::memcmp(a.values, b.values, 512), 0);
      EXPECT_EQ(std::memcmp(a.scales, b.scales, 8 * sizeof(float)), 0);
    }
  }
}

TEST(ActivationRows, RowsAreAlignedAndSetsMayShrink) {
  ActivationRows input = *ActivationRows::Create(3, 512);
  EXPECT_GT(ActivationRows::ScratchBytes(3, 512), 3u * 512u * 5u);
  for (const int64_t columns : {512, 96, 256}) {
    input.Begin(3, columns, {32, 2.0f});
    for (int32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(input.row(i)) % 64, 0u);
      const std::vector<float> x = Noise(columns, static_cast<uint32_t>(i));
      std::memcpy(input.row(i), x.data(), x.size() * sizeof(float));
      input.Quantize(i);
    }
    input.Seal();
    for (const QuantizedRow& row : input.quantized_rows()) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(row.values) % 64, 0u);
      if (row.is_residual) continue;
      ExpectQuantizationOf(Noise(columns, static_cast<uint32_t>(row.base_row)), 32, row);
    }
  }
  EXPECT_FALSE(ActivationRows::Create(0, 32).ok());
}

}  // namespace
}  // namespace tahmin::kernels
