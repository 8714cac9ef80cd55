#include "base/half.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace tahmin {
namespace {

bool IsHalfNan(uint16_t bits) { return (bits & 0x7FFF) > 0x7C00; }

TEST(Half, AllValuesRoundTrip) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    // A signalling NaN comes back quiet, as the vector instructions return it.
    const auto expected = static_cast<uint16_t>(IsHalfNan(half) ? half | 0x200 : half);
    ASSERT_EQ(FloatToHalf(HalfToFloat(half)), expected) << std::hex << bits;
  }
}

TEST(Half, AllFiniteValuesMatchTheirDefinition) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const int exponent = static_cast<int>((bits >> 10) & 0x1F);
    if (exponent == 0x1F) continue;
    const int mantissa = static_cast<int>(bits & 0x3FF);
    const double magnitude =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    const double expected = (bits & 0x8000) != 0 ? -magnitude : magnitude;
    const float value = HalfToFloat(static_cast<uint16_t>(bits));
    ASSERT_EQ(value, expected) << std::hex << bits;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0);
  }
}

// Between two neighbours: nearer one wins, the middle goes to the even one.
TEST(Half, RoundsToNearestEvenBetweenAllNeighbours) {
  for (uint32_t bits = 0; bits < 0x7BFF; ++bits) {
    const auto low_half = static_cast<uint16_t>(bits);
    const auto high_half = static_cast<uint16_t>(bits + 1);
    const float low = HalfToFloat(low_half);
    const float middle = (low + HalfToFloat(high_half)) / 2;  // exact: float has 13 more bits
    ASSERT_EQ(FloatToHalf(middle), (bits & 1) == 0 ? low_half : high_half) << std::hex << bits;
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, 0.0f)), low_half) << std::hex << bits;
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, 1e9f)), high_half) << std::hex << bits;
    ASSERT_EQ(FloatToHalf(-middle), 0x8000 | ((bits & 1) == 0 ? low_half : high_half));
  }
}

TEST(Half, OverflowGoesToInfinityAndTinyToZero) {
  EXPECT_EQ(FloatToHalf(65504.0f), 0x7BFF);
  EXPECT_EQ(FloatToHalf(std::nextafter(65520.0f, 0.0f)), 0x7BFF);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7C00);
  EXPECT_EQ(FloatToHalf(-1e30f), 0xFC00);
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::infinity()), 0x7C00);
  EXPECT_EQ(FloatToHalf(0x1p-25f), 0x0000);
  EXPECT_EQ(FloatToHalf(std::nextafter(0x1p-25f, 1.0f)), 0x0001);
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::denorm_min()), 0x0000);
  EXPECT_EQ(FloatToHalf(-0.0f), 0x8000);
}

TEST(Half, NanStaysNan) {
  EXPECT_TRUE(IsHalfNan(FloatToHalf(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(IsHalfNan(FloatToHalf(std::bit_cast<float>(0x7F800001u))));
  EXPECT_TRUE(std::isnan(HalfToFloat(0x7C01)));
}

TEST(Bfloat, AllValuesRoundTrip) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const bool is_nan = (bits & 0x7FFF) > 0x7F80;
    const auto expected = static_cast<uint16_t>(is_nan ? bits | 0x40 : bits);
    ASSERT_EQ(FloatToBfloat(BfloatToFloat(static_cast<uint16_t>(bits))), expected);
  }
}

TEST(Bfloat, RoundsToNearestEven) {
  EXPECT_EQ(FloatToBfloat(std::bit_cast<float>(0x3F808000u)), 0x3F80);
  EXPECT_EQ(FloatToBfloat(std::bit_cast<float>(0x3F818000u)), 0x3F82);
  EXPECT_EQ(FloatToBfloat(std::bit_cast<float>(0x3F808001u)), 0x3F81);
  EXPECT_EQ(FloatToBfloat(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(FloatToBfloat(std::bit_cast<float>(0x7F800001u)), 0x7FC0);
}

}  // namespace
}  // namespace tahmin
