// How the k-quant blocks pack the scales of their sub-blocks into 6 bits each, and the check of
// sizes that reading and writing blocks share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "base/tensor_type.h"

namespace tahmin {

// INVALID_ARGUMENT unless `type` is a weight type and num_bytes holds num_elements of it in whole
// blocks.
absl::Status CheckBlockSizes(TensorType type, size_t num_elements, size_t num_bytes);

struct ScaleAndMin {
  int scale = 0;
  int min = 0;
};

// Q4_K and Q5_K: eight pairs of 6 bits in 12 bytes. Pairs 0 to 3 lie in the low 6 bits of bytes 0
// to 3 (scales) and 4 to 7 (minima); pairs 4 to 7 have their low nibbles in bytes 8 to 11 and their
// two upper bits above the former.
inline ScaleAndMin Q4KScaleAndMin(const uint8_t* packed, int sub) {
  if (sub < 4) return {packed[sub] & 63, packed[sub + 4] & 63};
  return {(packed[sub + 4] & 15) | (packed[sub - 4] >> 6 << 4),
          (packed[sub + 4] >> 4) | (packed[sub] >> 6 << 4)};
}

// `packed` must be zero before the first call; every sub-block is written once.
inline void PackQ4KScaleAndMin(ScaleAndMin value, int sub, uint8_t* packed) {
  if (sub < 4) {
    packed[sub] |= static_cast<uint8_t>(value.scale);
    packed[sub + 4] |= static_cast<uint8_t>(value.min);
    return;
  }
  packed[sub + 4] |= static_cast<uint8_t>((value.scale & 15) | ((value.min & 15) << 4));
  packed[sub - 4] |= static_cast<uint8_t>(value.scale >> 4 << 6);
  packed[sub] |= static_cast<uint8_t>(value.min >> 4 << 6);
}

// Q3_K: sixteen scales of 6 bits (plus 32) in 12 bytes: low nibbles in bytes 0 to 7 (scales 8 to 15
// in the upper halves), upper bit pairs in bytes 8 to 11.
inline int Q3KScale(const uint8_t* packed, int sub) {
  const int low = sub < 8 ? packed[sub] & 15 : packed[sub - 8] >> 4;
  const int high = (packed[8 + sub % 4] >> (sub / 4 * 2)) & 3;
  return low | (high << 4);
}

inline void PackQ3KScale(int value, int sub, uint8_t* packed) {
  packed[sub % 8] |= static_cast<uint8_t>((value & 15) << (sub < 8 ? 0 : 4));
  packed[8 + sub % 4] |= static_cast<uint8_t>(value >> 4 << (sub / 4 * 2));
}

}  // namespace tahmin
