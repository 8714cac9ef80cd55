#include "kv/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace tahmin {
namespace {

size_t ElementBytes(KvType type) { return type == KvType::kF16 ? 2 : 4; }

// Key (or value) of one token in one layer and one head.
size_t HeadBytes(const KvShape& shape) {
  return static_cast<size_t>(shape.head_dim) * ElementBytes(shape.type);
}

// Planes of [num_slots, head_dim]: one for each layer, K or V, and head.
size_t NumPlanes(const KvShape& shape) {
  return static_cast<size_t>(shape.num_layers) * 2 * static_cast<size_t>(shape.num_kv_heads);
}

}  // namespace

size_t KvShape::BytesPerToken() const { return NumPlanes(*this) * HeadBytes(*this); }

KvCache::KvCache(const KvShape& shape) : shape_(shape) {
  TAHMIN_CHECK(shape.num_layers > 0 && shape.num_kv_heads > 0 && shape.head_dim > 0);
}

const KvCache::Sequence& KvCache::At(int32_t sequence) const {
  TAHMIN_CHECK(sequence >= 0 && static_cast<size_t>(sequence) < sequences_.size());
  TAHMIN_CHECK(sequences_[sequence].in_use);
  return sequences_[sequence];
}

KvCache::Sequence& KvCache::At(int32_t sequence) {
  return const_cast<Sequence&>(std::as_const(*this).At(sequence));
}

absl::StatusOr<int32_t> KvCache::AddSequence(int64_t num_slots) {
  TAHMIN_CHECK(num_slots > 0);
  const size_t per_token = shape_.BytesPerToken();
  if (static_cast<uint64_t>(num_slots) > std::numeric_limits<size_t>::max() / 2 / per_token) {
    return absl::ResourceExhaustedError(absl::StrCat("KV cache of ", num_slots, " tokens, ",
                                                     per_token,
                                                     " bytes each: more than can be addressed"));
  }
  absl::StatusOr<AlignedBuffer> buffer =
      AlignedBuffer::Create(static_cast<size_t>(num_slots) * per_token, BufferUse::kScattered);
  if (!buffer.ok()) {
    return absl::Status(buffer.status().code(),
                        absl::StrCat("KV cache of ", num_slots, " tokens, ", per_token,
                                     " bytes each: ", buffer.status().message()));
  }
  auto free_entry = std::find_if(sequences_.begin(), sequences_.end(),
                                 [](const Sequence& entry) { return !entry.in_use; });
  if (free_entry == sequences_.end()) {
    sequences_.emplace_back();
    free_entry = sequences_.end() - 1;
  }
  free_entry->buffer = std::move(*buffer);
  free_entry->num_slots = num_slots;
  free_entry->in_use = true;
  return static_cast<int32_t>(free_entry - sequences_.begin());
}

void KvCache::RemoveSequence(int32_t sequence) { At(sequence) = Sequence(); }

int64_t KvCache::Length(int32_t sequence) const { return At(sequence).length; }
int64_t KvCache::Reserved(int32_t sequence) const { return At(sequence).reserved; }
int64_t KvCache::Capacity(int32_t sequence) const { return At(sequence).num_slots; }

absl::Status KvCache::Reserve(int32_t sequence, int64_t num_tokens) {
  Sequence& entry = At(sequence);
  TAHMIN_CHECK(num_tokens >= 0);
  if (entry.reserved != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("KV cache: ", entry.reserved, " tree slots are reserved already"));
  }
  const int64_t num_free = entry.num_slots - entry.length;
  if (num_tokens > num_free) {
    return absl::ResourceExhaustedError(absl::StrCat("KV cache: ", num_tokens,
                                                     " tree slots wanted, ", num_free, " of ",
                                                     entry.num_slots, " free"));
  }
  entry.reserved = num_tokens;
  return absl::OkStatus();
}

void KvCache::Commit(int32_t sequence, std::span<const int32_t> path) {
  Sequence& entry = At(sequence);
  int32_t previous = -1;
  for (int32_t slot : path) {
    TAHMIN_CHECK(slot > previous && slot < entry.reserved);
    previous = slot;
  }
  // A chain, and the leading part of any path that is one, lies where it belongs already.
  size_t num_in_place = 0;
  while (num_in_place < path.size() && path[num_in_place] == static_cast<int32_t>(num_in_place)) {
    ++num_in_place;
  }
  const size_t head_bytes = HeadBytes(shape_);
  const size_t plane_bytes = static_cast<size_t>(entry.num_slots) * head_bytes;
  const size_t num_planes = num_in_place == path.size() ? 0 : NumPlanes(shape_);
  for (size_t plane = 0; plane < num_planes; ++plane) {
    uint8_t* tree =
        entry.buffer.data() + plane * plane_bytes + static_cast<size_t>(entry.length) * head_bytes;
    for (size_t i = num_in_place; i < path.size(); ++i) {
      std::memcpy(tree + i * head_bytes, tree + static_cast<size_t>(path[i]) * head_bytes,
                  head_bytes);
    }
  }
  entry.length += static_cast<int64_t>(path.size());
  entry.reserved = 0;
}

void KvCache::Rollback(int32_t sequence) { At(sequence).reserved = 0; }

void KvCache::Truncate(int32_t sequence, int64_t length) {
  Sequence& entry = At(sequence);
  TAHMIN_CHECK(entry.reserved == 0 && length >= 0 && length <= entry.length);
  entry.length = length;
}

KvView KvCache::View(int32_t sequence, int32_t layer) {
  Sequence& entry = At(sequence);
  TAHMIN_CHECK(layer >= 0 && layer < shape_.num_layers);
  const size_t side_bytes = static_cast<size_t>(shape_.num_kv_heads) *
                            static_cast<size_t>(entry.num_slots) * HeadBytes(shape_);
  uint8_t* keys = entry.buffer.data() + static_cast<size_t>(layer) * 2 * side_bytes;
  return {keys, keys + side_bytes, entry.num_slots};
}

size_t KvCache::allocated_bytes() const {
  size_t total = 0;
  for (const Sequence& entry : sequences_) total += entry.buffer.num_bytes();
  return total;
}

std::vector<uint8_t> KvCache::CommittedBytesForTest(int32_t sequence) const {
  const Sequence& entry = At(sequence);
  const size_t head_bytes = HeadBytes(shape_);
  const size_t used = static_cast<size_t>(entry.length) * head_bytes;
  std::vector<uint8_t> bytes;
  bytes.reserve(NumPlanes(shape_) * used);
  for (size_t plane = 0; plane < NumPlanes(shape_); ++plane) {
    const uint8_t* from =
        entry.buffer.data() + plane * static_cast<size_t>(entry.num_slots) * head_bytes;
    bytes.insert(bytes.end(), from, from + used);
  }
  return bytes;
}

}  // namespace tahmin
