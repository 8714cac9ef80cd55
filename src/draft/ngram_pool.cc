#include "draft/ngram_pool.h"

#include <algorithm>

#include "base/check.h"

namespace tahmin {

NgramPool::NgramPool(int32_t value_tokens, int32_t values_per_key, int32_t max_keys)
    : value_tokens_(value_tokens), values_per_key_(values_per_key), max_keys_(max_keys) {
  TAHMIN_CHECK(value_tokens >= 1 && values_per_key >= 1 && max_keys >= 1);
}

std::span<int32_t> NgramPool::ValuesOf(int32_t slot) {
  const size_t size = static_cast<size_t>(values_per_key_) * value_tokens_;
  return std::span<int32_t>(values_).subspan(slot * size, size);
}

void NgramPool::Add(int32_t key, std::span<const int32_t> value) {
  TAHMIN_CHECK(value.size() == static_cast<size_t>(value_tokens_));
  const int32_t slot = SlotFor(key);
  Unlink(slot);
  LinkAsNewest(slot);
  const std::span<int32_t> values = ValuesOf(slot);
  int32_t& num_values = slots_[slot].num_values;
  int32_t place = 0;
  while (place < num_values &&
         !std::equal(value.begin(), value.end(), values.begin() + place * value_tokens_)) {
    ++place;
  }
  if (place == num_values && num_values < values_per_key_) ++num_values;
  place = std::min(place, num_values - 1);
  std::copy_backward(values.begin(), values.begin() + place * value_tokens_,
                     values.begin() + (place + 1) * value_tokens_);
  std::copy(value.begin(), value.end(), values.begin());
}

int32_t NgramPool::NumValues(int32_t key) const {
  const auto found = slot_of_key_.find(key);
  return found == slot_of_key_.end() ? 0 : slots_[found->second].num_values;
}

std::span<const int32_t> NgramPool::Value(int32_t key, int32_t index) const {
  const auto found = slot_of_key_.find(key);
  TAHMIN_CHECK(found != slot_of_key_.end());
  TAHMIN_CHECK(index >= 0 && index < slots_[found->second].num_values);
  const size_t value = static_cast<size_t>(found->second) * values_per_key_ + index;
  return std::span<const int32_t>(values_).subspan(value * value_tokens_, value_tokens_);
}

size_t NgramPool::allocated_bytes() const {
  return slots_.capacity() * sizeof(Slot) + values_.capacity() * sizeof(int32_t) +
         slot_of_key_.capacity() * (sizeof(std::pair<int32_t, int32_t>) + 1);
}

int32_t NgramPool::SlotFor(int32_t key) {
  const auto found = slot_of_key_.find(key);
  if (found != slot_of_key_.end()) return found->second;
  int32_t slot = oldest_;
  if (num_keys() < max_keys_) {
    slot = num_keys();
    slots_.push_back({.key = key});
    values_.resize(values_.size() + static_cast<size_t>(values_per_key_) * value_tokens_);
    LinkAsNewest(slot);
  } else {
    slot_of_key_.erase(slots_[slot].key);
    slots_[slot].key = key;
    slots_[slot].num_values = 0;
  }
  slot_of_key_[key] = slot;
  return slot;
}

void NgramPool::Unlink(int32_t slot) {
  const Slot& gone = slots_[slot];
  (gone.older == kNone ? oldest_ : slots_[gone.older].newer) = gone.newer;
  (gone.newer == kNone ? newest_ : slots_[gone.newer].older) = gone.older;
}

void NgramPool::LinkAsNewest(int32_t slot) {
  slots_[slot].older = newest_;
  slots_[slot].newer = kNone;
  (newest_ == kNone ? oldest_ : slots_[newest_].newer) = slot;
  newest_ = slot;
}

}  // namespace tahmin
