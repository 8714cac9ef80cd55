// Where keys and values of one layer of one sequence lie: known to the cache, which moves them, and
// to attention, which reads them. Slots come in blocks of kAttentionBlock.
//   values [num_kv_heads, num_slots, head_dim]: a token's value is one run
//   keys   [num_kv_heads, num_slots / kAttentionBlock, head_dim, kAttentionBlock]: a block of keys
//          is stored transposed, so that a vector holds one dimension of neighbouring keys, scores
//          need no sum across lanes, and a block is one run of memory
// Elements are f16 bits or float32. Offsets are in elements.
#pragma once

#include <cstdint>

namespace tahmin {

constexpr int64_t kAttentionBlock = 32;

// Whole blocks: what num_slots is above.
inline int64_t PaddedSlots(int64_t num_slots) {
  return (num_slots + kAttentionBlock - 1) / kAttentionBlock * kAttentionBlock;
}

// Dimension 0; the others follow.
inline int64_t ValueOffset(int64_t kv_head, int64_t slot, int64_t num_slots, int64_t head_dim) {
  return (kv_head * num_slots + slot) * head_dim;
}

// Dimension 0; each further one is kAttentionBlock away.
inline int64_t KeyOffset(int64_t kv_head, int64_t slot, int64_t num_slots, int64_t head_dim) {
  const int64_t lane = slot % kAttentionBlock;
  return (kv_head * num_slots + slot - lane) * head_dim + lane;
}

}  // namespace tahmin
