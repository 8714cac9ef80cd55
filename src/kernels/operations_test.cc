#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/half.h"
#include "gtest/gtest.h"
#include "kernels/each_target_test.h"
#include "kernels/kernels.h"
#include "kernels/reference/operations_reference.h"

namespace tahmin::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kGuard = -12345.5f;  // stands behind every output; must survive
const int64_t kSizes[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 576, 896, 1537};

std::vector<float> Random(int64_t size, uint32_t seed, float scale = 1.0f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(size);
  for (float& value : values) value = normal(generator);
  return values;
}

using OperationsTest = EachTargetTest;
INSTANTIATE_TEST_SUITE_P(Targets, OperationsTest, EachTarget(), TargetChoiceName);

TEST_P(OperationsTest, RmsNormMatchesTheReference) {
  for (int64_t size : kSizes) {
    const std::vector<float> x = Random(size, 1, 3.0f), weight = Random(size, 2);
    std::vector<double> expected(size);
    reference::RmsNorm(x.data(), weight.data(), 1e-5f, size, expected.data());
    std::vector<float> out(size + 1, kGuard), in_place = x;
    RmsNorm(x.data(), weight.data(), 1e-5f, size, out.data());
    RmsNorm(in_place.data(), weight.data(), 1e-5f, size, in_place.data());
    for (int64_t i = 0; i < size; ++i) {
      ASSERT_NEAR(out[i], expected[i], 1e-6 * std::abs(expected[i]) + 1e-9) << size << " " << i;
      ASSERT_EQ(out[i], in_place[i]);
    }
    EXPECT_EQ(out[size], kGuard);
  }
}

TEST_P(OperationsTest, RmsNormOfZerosIsZero) {
  std::vector<float> x(37, 0.0f), weight(37, 2.0f);
  RmsNorm(x.data(), weight.data(), 1e-6f, 37, x.data());
  for (float value : x) EXPECT_EQ(value, 0.0f);
}

TEST_P(OperationsTest, AddIsExact) {
  for (int64_t size : kSizes) {
    std::vector<float> x = Random(size + 1, 3);
    const std::vector<float> before = x, y = Random(size, 4);
    Add(x.data(), y.data(), size);
    for (int64_t i = 0; i < size; ++i) ASSERT_EQ(x[i], before[i] + y[i]) << size << " " << i;
    EXPECT_EQ(x[size], before[size]);
  }
}

TEST_P(OperationsTest, TopProbabilityIsThatOfTheSoftmax) {
  for (const int64_t size : {1, 2, 7, 16, 33, 1000, 152064}) {
    std::vector<float> logits = Random(size, 12, 6.0f);
    logits[static_cast<size_t>(size / 2)] = size > 2 ? 23.0f : 1.0f;
    if (size > 3) logits[3] = -std::numeric_limits<float>::infinity();
    const float top = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - top);
    EXPECT_NEAR(TopProbability(logits.data(), size), 1 / sum, 1e-4) << size;
  }
}

TEST_P(OperationsTest, SiluMultiplyMatchesTheReference) {
  for (int64_t size : kSizes) {
    const std::vector<float> gate = Random(size, 5, 6.0f), up = Random(size, 6);
    std::vector<double> expected(size);
    reference::SiluMultiply(gate.data(), up.data(), size, expected.data());
    std::vector<float> out(size + 1, kGuard), in_place = gate;
    SiluMultiply(gate.data(), up.data(), size, out.data());
    SiluMultiply(in_place.data(), up.data(), size, in_place.data());
    for (int64_t i = 0; i < size; ++i) {
      ASSERT_NEAR(out[i], expected[i], 1e-6 * std::abs(expected[i]) + 1e-30) << gate[i];
      ASSERT_EQ(out[i], in_place[i]);
    }
    EXPECT_EQ(out[size], kGuard);
  }
}

TEST_P(OperationsTest, SiluIsRightAtTheEdges) {
  const std::vector<float> gate = {-1e30f, -1000.0f, -89.0f, -0.0f, 0.0f,
                                   89.0f,  1000.0f,  1e30f,  kNan};
  const std::vector<float> up(gate.size(), 1.0f);
  std::vector<float> out(gate.size());
  SiluMultiply(gate.data(), up.data(), static_cast<int64_t>(gate.size()), out.data());
  for (int i : {0, 1, 2}) EXPECT_NEAR(out[i], 0.0f, 1e-30f) << gate[i];
  EXPECT_EQ(out[3], 0.0f);
  EXPECT_EQ(out[4], 0.0f);
  for (int i : {5, 6, 7}) EXPECT_EQ(out[i], gate[i]);
  EXPECT_TRUE(std::isnan(out[8]));
}

TEST_P(OperationsTest, RopeMatchesTheReference) {
  for (RopeStyle style : {RopeStyle::kInterleaved, RopeStyle::kNeox}) {
    for (int32_t head_dim : {2, 6, 16, 22, 64, 80, 128}) {
      for (int32_t rotary : {head_dim, head_dim / 4 * 2}) {
        const int32_t num_heads = 3;
        const std::vector<float> x = Random(num_heads * head_dim, 7);
        std::vector<float> cosines, sines;
        for (int32_t i = 0; i < rotary / 2; ++i) {
          cosines.push_back(std::cos(0.37f * static_cast<float>(i + 1)));
          sines.push_back(std::sin(0.37f * static_cast<float>(i + 1)));
        }
        const RopeTable table = {cosines.data(), sines.data()};
        std::vector<double> expected(x.size());
        reference::Rope(x.data(), num_heads, head_dim, rotary, style, table, expected.data());
        std::vector<float> rotated = x;
        Rope(rotated.data(), num_heads, head_dim, rotary, style, table);
        for (size_t i = 0; i < x.size(); ++i) {
          ASSERT_NEAR(rotated[i], expected[i], 1e-6) << head_dim << " " << rotary << " " << i;
          if (static_cast<int32_t>(i) % head_dim >= rotary) {
            ASSERT_EQ(rotated[i], x[i]);
          }
        }
      }
    }
  }
}

TEST_P(OperationsTest, EveryHalfConvertsExactly) {
  std::vector<uint16_t> halves(65536 + 3);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  std::vector<float> floats(halves.size());
  HalfToFloatRow(halves.data(), static_cast<int64_t>(halves.size()), floats.data());
  std::vector<uint16_t> back(halves.size());
  FloatToHalfRow(floats.data(), static_cast<int64_t>(floats.size()), back.data());
  for (size_t i = 0; i < halves.size(); ++i) {
    const float expected = HalfToFloat(halves[i]);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(floats[i]) && std::isnan(HalfToFloat(back[i]))) << i;
      continue;
    }
    ASSERT_EQ(std::memcmp(&floats[i], &expected, sizeof(float)), 0) << i;
    ASSERT_EQ(back[i], halves[i]) << i;
  }
}

TEST_P(OperationsTest, FloatToHalfRoundsToNearestEven) {
  std::vector<float> floats = {
      65504.0f,      65519.99f,     65520.0f,      1e6f,          -1e30f,         kInfinity,
      -kInfinity,    0.0f,          -0.0f,         5.9604645e-8f, 2.9802322e-8f,  2.98023259e-8f,
      8.9406967e-8f, 6.1035156e-5f, 6.0975552e-5f, 1e-40f,        1.00048828125f, 1.00146484375f};
  for (float value : Random(4099, 8, 100.0f)) floats.push_back(value);
  for (float value : Random(4099, 9, 1e-6f)) floats.push_back(value);
  std::vector<uint16_t> halves(floats.size() + 1, 0xabcd);
  FloatToHalfRow(floats.data(), static_cast<int64_t>(floats.size()), halves.data());
  for (size_t i = 0; i < floats.size(); ++i)
    ASSERT_EQ(halves[i], FloatToHalf(floats[i])) << floats[i];
  EXPECT_EQ(halves.back(), 0xabcd);
}

TEST_P(OperationsTest, HasNoNanFindsOneAnywhere) {
  for (int64_t size : kSizes) {
    std::vector<float> x = Random(size + 1, 10);
    x[0] = kInfinity;
    x[size] = kNan;  // behind the row
    EXPECT_TRUE(HasNoNan(x.data(), size)) << size;
    for (int64_t i = 0; i < size; ++i) {
      const float value = x[i];
      x[i] = kNan;
      ASSERT_FALSE(HasNoNan(x.data(), size)) << size << " " << i;
      x[i] = value;
    }
  }
  EXPECT_TRUE(HasNoNan(nullptr, 0));
}

TEST_P(OperationsTest, BitsDoNotDependOnAlignment) {
  const int64_t size = 577;
  const std::vector<float> x = Random(size, 11), weight = Random(size, 12);
  std::vector<float> expected(size);
  RmsNorm(x.data(), weight.data(), 1e-6f, size, expected.data());
  for (int64_t offset = 1; offset < 17; ++offset) {
    std::vector<float> moved(offset + size), out(offset + size);
    std::copy(x.begin(), x.end(), moved.begin() + offset);
    RmsNorm(moved.data() + offset, weight.data(), 1e-6f, size, out.data() + offset);
    ASSERT_EQ(std::memcmp(out.data() + offset, expected.data(), size * sizeof(float)), 0) << offset;
  }
}

}  // namespace
}  // namespace tahmin::kernels
