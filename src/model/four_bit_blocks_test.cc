#include "model/four_bit_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/philox.h"
#include "gguf/dequantize.h"
#include "kernels/each_target_test.h"

namespace tahmin {
namespace {

constexpr int kBlock = 32;
constexpr int kNumValues = 64 * static_cast<int>(kSuperBlock);

double Uniform(uint32_t i, uint32_t salt) {
  return (Philox4x32(7, {{i, salt, 0, 0}})[0] + 0.5) * 0x1p-32;
}

// Like weights: nearly normal, with a different spread in every block and a few outliers.
std::vector<float> Weights(double offset) {
  std::vector<float> values(kNumValues);
  for (int i = 0; i < kNumValues; ++i) {
    const double spread = 0.02 * (1 + i / kBlock % 5);
    const double radius = std::sqrt(-2 * std::log(Uniform(i, 1)));
    const double normal = radius * std::cos(2 * M_PI * Uniform(i, 2));
    values[i] = static_cast<float>(spread * (normal + offset) * (i % 97 == 0 ? 2.5 : 1));
  }
  return values;
}

double SquaredError(const std::vector<float>& a, const std::vector<float>& b) {
  double error = 0;
  for (size_t i = 0; i < a.size(); ++i) error += (a[i] - b[i]) * (a[i] - b[i]);
  return error;
}

std::vector<uint8_t> EmptyBlocks(TensorType type, size_t num_values) {
  const TensorTypeTraits& traits = *FindTensorType(static_cast<uint32_t>(type));
  return std::vector<uint8_t>(num_values / traits.block_elements * traits.block_bytes);
}

std::vector<float> Restore(TensorType type, const std::vector<uint8_t>& blocks, size_t size) {
  std::vector<float> values(size);
  EXPECT_TRUE(DequantizeRow(type, blocks, values).ok());
  return values;
}

double FittedError(TensorType type, const std::vector<float>& values) {
  std::vector<uint8_t> blocks = EmptyBlocks(type, values.size());
  QuantizeFourBits(type, values, blocks);
  return SquaredError(values, Restore(type, blocks, values.size()));
}

// Plain rounding over the full range of a block.
double RoundedError(TensorType type, const std::vector<float>& values) {
  std::vector<uint8_t> blocks = EmptyBlocks(type, values.size());
  EXPECT_TRUE(QuantizeRow(type, values, blocks).ok());
  return SquaredError(values, Restore(type, blocks, values.size()));
}

double GridError(const float* x, double step, double origin, int lowest, int highest) {
  double error = 0;
  for (int i = 0; i < kBlock; ++i) {
    const double quant =
        std::clamp(std::nearbyint((x[i] - origin) / step), double(lowest), double(highest));
    const double difference = x[i] - (origin + step * quant);
    error += difference * difference;
  }
  return error;
}

// The least error that any scale can give in blocks of 32: all scales tried, in steps of 0.5 %.
double IdealSymmetricError(const std::vector<float>& values) {
  double total = 0;
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const float* x = values.data() + begin;
    double peak = 0;
    for (int i = 0; i < kBlock; ++i) peak = std::max(peak, std::abs(double{x[i]}));
    double best = std::numeric_limits<double>::infinity();
    for (double part = 0.6; part <= 1.2; part += 0.005) {
      best = std::min({best, GridError(x, peak * part / 8, 0, -8, 7),
                       GridError(x, -peak * part / 8, 0, -8, 7)});
    }
    total += best;
  }
  return total;
}

// The same over both ends of the grid. Here they need not be stored in 6 bits, which alone costs
// the narrow blocks of a wide super-block some percent.
double IdealAffineError(const std::vector<float>& values) {
  double total = 0;
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const float* x = values.data() + begin;
    const double low = std::min(0.0f, *std::min_element(x, x + kBlock));
    const double high = *std::max_element(x, x + kBlock);
    double best = std::numeric_limits<double>::infinity();
    for (double from = -0.05; from <= 0.3; from += 0.01) {
      for (double to = -0.05; to <= 0.3; to += 0.01) {
        const double origin = std::min(0.0, low + from * (high - low));
        const double step = (high - to * (high - low) - origin) / 15;
        if (step > 0) best = std::min(best, GridError(x, step, origin, 0, 15));
      }
    }
    total += best;
  }
  return total;
}

TEST(FourBitBlocks, Q4_0IsWithinTwoPercentOfTheBestScaleAndRoundingIsNot) {
  for (const double offset : {0.0, 0.5}) {
    const std::vector<float> values = Weights(offset);
    const double ideal = IdealSymmetricError(values);
    EXPECT_LE(FittedError(TensorType::kQ4_0, values), 1.02 * 1.02 * ideal);
    EXPECT_GT(RoundedError(TensorType::kQ4_0, values), 1.02 * 1.02 * ideal);
  }
}

TEST(FourBitBlocks, Q4_KIsWithinEightPercentOfTheBestGridAndRoundingIsNot) {
  for (const double offset : {0.0, 0.5}) {
    const std::vector<float> values = Weights(offset);
    const double ideal = IdealAffineError(values);
    EXPECT_LE(FittedError(TensorType::kQ4_K, values), 1.08 * 1.08 * ideal);
    EXPECT_GT(RoundedError(TensorType::kQ4_K, values), 1.08 * 1.08 * ideal);
  }
}

TEST(FourBitBlocks, ValuesOnAGridStayThere) {
  for (const TensorType type : {TensorType::kQ4_0, TensorType::kQ4_K}) {
    std::vector<float> values(kSuperBlock);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 0.25f * (static_cast<float>(i % 16) - 8);
    }
    EXPECT_LE(FittedError(type, values), 1e-3 * static_cast<double>(values.size()) * 0.25 * 0.25);
    EXPECT_EQ(FittedError(type, std::vector<float>(kSuperBlock, 0.0f)), 0);
    // Constants: within the rounding of the scale to f16 and 6 bits.
    EXPECT_LE(FittedError(type, std::vector<float>(kSuperBlock, -3.0f)), kSuperBlock * 1e-4);
    EXPECT_LE(FittedError(type, std::vector<float>(kSuperBlock, 3.0f)), kSuperBlock * 1e-4);
  }
}

TEST(FourBitBlocks, WhatIsNotFiniteStandsForNan) {
  for (const TensorType type : {TensorType::kQ4_0, TensorType::kQ4_K}) {
    for (const float broken :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> values(2 * kSuperBlock, 0.5f);
      values[kSuperBlock + 17] = broken;
      std::vector<uint8_t> blocks = EmptyBlocks(type, values.size());
      QuantizeFourBits(type, values, blocks);
      const std::vector<float> restored = Restore(type, blocks, values.size());
      EXPECT_TRUE(std::isnan(restored[kSuperBlock + 17]));
      EXPECT_NEAR(restored[0], 0.5f, 0.01f);
    }
  }
}

// However many there are, and whatever stands beside them.
TEST(FourBitBlocks, ABlockDependsOnItsOwnValuesAlone) {
  std::vector<float> values = Weights(0.5);
  values[5 * kBlock] = std::numeric_limits<float>::quiet_NaN();
  for (const TensorType type : {TensorType::kQ4_0, TensorType::kQ4_K}) {
    const size_t elements = FindTensorType(static_cast<uint32_t>(type))->block_elements;
    for (size_t count = 1; count <= 19; ++count) {
      const std::span<const float> some(values.data(), count * elements);
      std::vector<uint8_t> together = EmptyBlocks(type, some.size()), alone;
      QuantizeFourBits(type, some, together);
      for (size_t i = 0; i < count; ++i) {
        std::vector<uint8_t> block = EmptyBlocks(type, elements);
        QuantizeFourBits(type, some.subspan(i * elements, elements), block);
        alone.insert(alone.end(), block.begin(), block.end());
      }
      EXPECT_EQ(together, alone) << count;
    }
  }
}

class FourBitBlocksOnTarget : public kernels::EachTargetTest {};

INSTANTIATE_TEST_SUITE_P(Targets, FourBitBlocksOnTarget, kernels::EachTarget(),
                         kernels::TargetChoiceName);

// Sums go in one order, so that only fusing a product with a sum can make a difference.
TEST_P(FourBitBlocksOnTarget, BlocksAreNearlyThoseOfEveryOtherTarget) {
  const std::vector<float> values = Weights(0.5);
  for (const TensorType type : {TensorType::kQ4_0, TensorType::kQ4_K}) {
    std::vector<uint8_t> here = EmptyBlocks(type, values.size()), portable = here;
    QuantizeFourBits(type, values, here);
    kernels::ForceIsaForTest(kernels::Isa::kPortable);
    QuantizeFourBits(type, values, portable);
    SetUp();
    int num_different = 0;
    for (size_t i = 0; i < here.size(); ++i) num_different += here[i] != portable[i] ? 1 : 0;
    EXPECT_LE(num_different, static_cast<int>(here.size()) / 200);
    const double error = SquaredError(values, Restore(type, here, values.size()));
    EXPECT_NEAR(error / SquaredError(values, Restore(type, portable, values.size())), 1, 1e-4);
  }
}

TEST(FourBitBlocks, OnlyWiderMatricesChangeTheirType) {
  for (const TensorType type :
       {TensorType::kQ4_0, TensorType::kQ4_1, TensorType::kQ4_K, TensorType::kQ2_K}) {
    EXPECT_EQ(FourBitType(type, 512), type);
  }
  for (const TensorType type : {TensorType::kQ5_0, TensorType::kQ5_1, TensorType::kQ8_0,
                                TensorType::kF16, TensorType::kBF16, TensorType::kF32}) {
    EXPECT_EQ(FourBitType(type, 512), TensorType::kQ4_K);
    EXPECT_EQ(FourBitType(type, 896), TensorType::kQ4_0);
  }
  for (const TensorType type : {TensorType::kQ3_K, TensorType::kQ5_K, TensorType::kQ6_K}) {
    EXPECT_EQ(FourBitType(type, 512), TensorType::kQ4_K);
  }
  EXPECT_EQ(FourBitType(TensorType::kF16, 48), TensorType::kF16);  // no block fits
}

}  // namespace
}  // namespace tahmin
