// IEEE binary16 and bfloat16 as bit patterns, converted exactly: to float without loss, from float
// with round to nearest even, overflow to infinity, NaN kept a NaN. Scalar; the vector forms live
// with the kernels.
#pragma once

#include <cstdint>

namespace tahmin {

float HalfToFloat(uint16_t half_bits);
uint16_t FloatToHalf(float value);
float BfloatToFloat(uint16_t bfloat_bits);
uint16_t FloatToBfloat(float value);

}  // namespace tahmin
