// N-grams by their first token: for every key the values (the tokens behind it) that were added
// last, most recent first. Bounded: values per key, and keys; when those are full, the key that was
// added to longest ago goes. Used by `lookahead`; lives as long as its drafter, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace tahmin {

class NgramPool {
 public:
  // All at least 1. Memory grows with the keys, up to max_keys x values_per_key x value_tokens ids.
  NgramPool(int32_t value_tokens, int32_t values_per_key, int32_t max_keys);

  // value [value_tokens]. One that is there already becomes the most recent.
  void Add(int32_t key, std::span<const int32_t> value);

  int32_t NumValues(int32_t key) const;
  // index in [0, NumValues(key)), 0 is the most recent. Valid until the next Add.
  std::span<const int32_t> Value(int32_t key, int32_t index) const;

  int32_t num_keys() const { return static_cast<int32_t>(slots_.size()); }
  int32_t value_tokens() const { return value_tokens_; }
  size_t allocated_bytes() const;

 private:
  static constexpr int32_t kNone = -1;
  struct Slot {
    int32_t key;
    int32_t num_values = 0;
    int32_t older = kNone, newer = kNone;  // in the order of the last Add
  };

  int32_t SlotFor(int32_t key);  // of a known key, a new one, or the oldest one's taken over
  void Unlink(int32_t slot);
  void LinkAsNewest(int32_t slot);
  std::span<int32_t> ValuesOf(int32_t slot);

  const int32_t value_tokens_, values_per_key_, max_keys_;
  std::vector<Slot> slots_;
  std::vector<int32_t> values_;  // [slots, values_per_key, value_tokens]
  absl::flat_hash_map<int32_t, int32_t> slot_of_key_;
  int32_t oldest_ = kNone, newest_ = kNone;
};

}  // namespace tahmin
