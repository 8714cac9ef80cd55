// Keys and values of committed tokens, and of the draft tree that is being verified. Each sequence
// owns a fixed number of slots in every layer: slots [0, length) are the committed prefix in
// position order, the next `reserved` ones are tree slots. All memory is reserved at AddSequence; a
// step cannot run out of it. One thread drives a cache; during a Forward pass threads write
// distinct slots through View.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/aligned_buffer.h"
#include "tahmin/options.h"

namespace tahmin {

struct KvShape {
  int32_t num_layers = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  KvType type = KvType::kF16;

  size_t BytesPerToken() const;                       // keys and values, all layers
  uint64_t BytesOfSequence(int64_t num_slots) const;  // with the end of its last block
};

// One layer of one sequence: keys and values as step/kv_layout.h says.
struct KvView {
  void* keys;
  void* values;
  int64_t num_slots;  // whole blocks, at least the sequence's capacity
};

class KvCache {
 public:
  explicit KvCache(const KvShape& shape);

  // A sequence of at most num_slots tokens, tree slots included. RESOURCE_EXHAUSTED: no memory.
  // Handles of removed sequences are used again.
  absl::StatusOr<int32_t> AddSequence(int64_t num_slots);
  void RemoveSequence(int32_t sequence);

  int64_t Length(int32_t sequence) const;    // committed tokens
  int64_t Reserved(int32_t sequence) const;  // tree slots in use
  int64_t Capacity(int32_t sequence) const;

  // Makes tree slots 0 .. num_tokens - 1 usable (slot Length + i in memory). RESOURCE_EXHAUSTED
  // with both numbers when they do not fit; nothing changes then. FAILED_PRECONDITION when slots
  // are reserved already.
  absl::Status Reserve(int32_t sequence, int64_t num_tokens);
  // Keeps the path (strictly ascending tree slots: the in-place ascending copy never overwrites a
  // slot still needed) as the next committed tokens and frees every other tree slot. An empty path
  // is Rollback.
  void Commit(int32_t sequence, std::span<const int32_t> path);
  void Rollback(int32_t sequence);
  // Drops committed tokens from `length` on. length <= Length; no tree slots may be reserved.
  void Truncate(int32_t sequence, int64_t length);

  KvView View(int32_t sequence, int32_t layer);
  const KvShape& shape() const { return shape_; }
  size_t allocated_bytes() const;

  // The committed prefix, [layers][K, V][num_kv_heads][length][head_dim] (tests compare it with a
  // fresh prefill).
  std::vector<uint8_t> CommittedBytesForTest(int32_t sequence) const;

 private:
  struct Sequence {
    AlignedBuffer buffer;  // [layers][K, V]
    int64_t num_slots = 0, length = 0, reserved = 0;
    int64_t padded_slots = 0;  // whole blocks
    bool in_use = false;
  };
  const Sequence& At(int32_t sequence) const;  // checks the handle
  Sequence& At(int32_t sequence);

  KvShape shape_;
  std::vector<Sequence> sequences_;
};

}  // namespace tahmin
