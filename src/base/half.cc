#include "base/half.h"

#include <bit>

namespace tahmin {

// Signalling NaNs become quiet ones with the same payload, as F16C and NEON conversions do, so that
// the scalar and the vector form agree on all bits.

float HalfToFloat(uint16_t half_bits) {
  const uint32_t sign = static_cast<uint32_t>(half_bits & 0x8000u) << 16;
  const uint32_t exponent = (half_bits >> 10) & 0x1Fu;
  const uint32_t mantissa = half_bits & 0x3FFu;
  if (exponent == 0x1F) {
    const uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7F800000u | quiet | (mantissa << 13));
  }
  if (exponent == 0) {
    // Zero or subnormal: mantissa * 2^-24, exact in float.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {
    return static_cast<uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
  }
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7C00u);  // >= 2^16, infinity
  if (magnitude < 0x33000000u) return static_cast<uint16_t>(sign);             // < 2^-25
  const bool is_normal = magnitude >= 0x38800000u;                             // >= 2^-14
  const uint32_t exponent = magnitude >> 23;
  // The significand as an integer, and how many of its low bits the result cannot hold.
  const uint32_t significand =
      is_normal ? magnitude - (112u << 23) : ((magnitude & 0x7FFFFFu) | 0x800000u);
  const uint32_t dropped_bits = is_normal ? 13 : 126 - exponent;
  const uint32_t half_unit = 1u << (dropped_bits - 1);
  const uint32_t is_odd = (significand >> dropped_bits) & 1u;
  // A carry out of the mantissa moves into the exponent, up to infinity: just the next value.
  const uint32_t rounded = (significand + half_unit - 1 + is_odd) >> dropped_bits;
  return static_cast<uint16_t>(sign | rounded);
}

float BfloatToFloat(uint16_t bfloat_bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bfloat_bits) << 16);
}

uint16_t FloatToBfloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  const uint32_t is_odd = (bits >> 16) & 1u;
  return static_cast<uint16_t>((bits + 0x7FFFu + is_odd) >> 16);
}

}  // namespace tahmin
