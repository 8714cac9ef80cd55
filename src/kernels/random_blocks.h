// Random weights for tests: GGUF blocks whose bytes are arbitrary, their f16 scales arbitrary or
// tame.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "base/tensor_type.h"

namespace tahmin::kernels {

inline const std::vector<TensorType>& WeightTypes() {
  static const std::vector<TensorType> types = {
      TensorType::kQ4_K, TensorType::kQ5_K, TensorType::kQ6_K, TensorType::kQ3_K, TensorType::kQ2_K,
      TensorType::kQ4_0, TensorType::kQ4_1, TensorType::kQ5_0, TensorType::kQ5_1, TensorType::kQ8_0,
      TensorType::kF16,  TensorType::kBF16, TensorType::kF32};
  return types;
}

// Byte offsets of the f16 numbers of one block; empty for plain types.
inline std::vector<size_t> HalfOffsets(TensorType type) {
  switch (type) {
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
    case TensorType::kQ4_1:
    case TensorType::kQ5_1:
      return {0, 2};
    case TensorType::kQ4_0:
    case TensorType::kQ5_0:
    case TensorType::kQ8_0:
      return {0};
    case TensorType::kQ2_K:
      return {80, 82};
    case TensorType::kQ3_K:
      return {108};
    case TensorType::kQ6_K:
      return {208};
    default:
      return {};
  }
}

inline std::vector<uint8_t> RandomBytes(TensorType type, int64_t elements, std::mt19937& rng) {
  const TensorTypeTraits* traits = FindTensorType(static_cast<uint32_t>(type));
  std::vector<uint8_t> bytes(static_cast<size_t>(elements / traits->block_elements) *
                             traits->block_bytes);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng());
  return bytes;
}

// The same, every f16 (bf16, f32) number replaced by one of magnitude 2^-4 to 2^1.
inline std::vector<uint8_t> TameBlocks(TensorType type, int64_t elements, std::mt19937& rng) {
  std::vector<uint8_t> bytes = RandomBytes(type, elements, rng);
  const TensorTypeTraits* traits = FindTensorType(static_cast<uint32_t>(type));
  for (size_t at = 0; at < bytes.size(); at += traits->block_bytes) {
    const uint32_t exponent = rng() % 5;
    if (type == TensorType::kF32 || type == TensorType::kBF16) {
      uint8_t* top = bytes.data() + at + traits->block_bytes - 2;
      const uint32_t bits = (rng() & 0x807F) | (123 + exponent) << 7;
      top[0] = static_cast<uint8_t>(bits);
      top[1] = static_cast<uint8_t>(bits >> 8);
      continue;
    }
    const std::vector<size_t> offsets =
        type == TensorType::kF16 ? std::vector<size_t>{0} : HalfOffsets(type);
    for (const size_t offset : offsets) {
      const uint32_t bits = (rng() & 0x83FF) | (11 + exponent) << 10;
      bytes[at + offset] = static_cast<uint8_t>(bits);
      bytes[at + offset + 1] = static_cast<uint8_t>(bits >> 8);
    }
  }
  return bytes;
}

}  // namespace tahmin::kernels
