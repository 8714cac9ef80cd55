#include "kv/kv_cache.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "step/kv_layout.h"

namespace tahmin {
namespace {

size_t ElementBytes(KvType type) { return type == KvType::kF16 ? 2 : 4; }

// Key (or value) of one token in one layer and one head.
size_t HeadBytes(const KvShape& shape) {
  return static_cast<size_t>(shape.head_dim) * ElementBytes(shape.type);
}

// Keys, or values, of one layer and all heads.
size_t NumSides(const KvShape& shape) { return static_cast<size_t>(shape.num_layers) * 2; }

size_t SideBytes(const KvShape& shape, int64_t padded_slots) {
  return static_cast<size_t>(shape.num_kv_heads) * static_cast<size_t>(padded_slots) *
         HeadBytes(shape);
}

// One head's key or value of one token: where it begins, and how far its dimensions are apart.
struct HeadPlace {
  int64_t offset, stride;
};

HeadPlace PlaceOf(bool is_key, int64_t head, int64_t slot, int64_t padded_slots, int64_t head_dim) {
  if (is_key) return {KeyOffset(head, slot, padded_slots, head_dim), kAttentionBlock};
  return {ValueOffset(head, slot, padded_slots, head_dim), 1};
}

template <typename T>
void CopyHead(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t head_dim) {
  for (int64_t d = 0; d < head_dim; ++d) to[d * to_stride] = from[d * from_stride];
}

// Moves all heads of one side from slot to slot.
template <typename T>
void MoveSlot(T* side, bool is_key, const KvShape& shape, int64_t padded_slots, int64_t from_slot,
              int64_t to_slot) {
  for (int64_t head = 0; head < shape.num_kv_heads; ++head) {
    const HeadPlace from = PlaceOf(is_key, head, from_slot, padded_slots, shape.head_dim);
    const HeadPlace to = PlaceOf(is_key, head, to_slot, padded_slots, shape.head_dim);
    CopyHead(side + from.offset, from.stride, side + to.offset, to.stride, shape.head_dim);
  }
}

}  // namespace

size_t KvShape::BytesPerToken() const {
  return NumSides(*this) * static_cast<size_t>(num_kv_heads) * HeadBytes(*this);
}

uint64_t KvShape::BytesOfSequence(int64_t num_slots) const {
  return BytesPerToken() * static_cast<uint64_t>(PaddedSlots(num_slots));
}

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
      AlignedBuffer::Create(shape_.BytesOfSequence(num_slots), BufferUse::kScattered);
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
  free_entry->padded_slots = PaddedSlots(num_slots);
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
  const size_t num_sides = num_in_place == path.size() ? 0 : NumSides(shape_);
  const size_t side_bytes = SideBytes(shape_, entry.padded_slots);
  for (size_t index = 0; index < num_sides; ++index) {
    uint8_t* side = entry.buffer.data() + index * side_bytes;
    const bool is_key = index % 2 == 0;
    for (size_t i = num_in_place; i < path.size(); ++i) {
      const int64_t from = entry.length + path[i], to = entry.length + static_cast<int64_t>(i);
      if (shape_.type == KvType::kF16) {
        MoveSlot(reinterpret_cast<uint16_t*>(side), is_key, shape_, entry.padded_slots, from, to);
      } else {
        MoveSlot(reinterpret_cast<uint32_t*>(side), is_key, shape_, entry.padded_slots, from, to);
      }
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
  const size_t side_bytes = SideBytes(shape_, entry.padded_slots);
  uint8_t* keys = entry.buffer.data() + static_cast<size_t>(layer) * 2 * side_bytes;
  return {keys, keys + side_bytes, entry.padded_slots};
}

size_t KvCache::allocated_bytes() const {
  size_t total = 0;
  for (const Sequence& entry : sequences_) total += entry.buffer.num_bytes();
  return total;
}

std::vector<uint8_t> KvCache::CommittedBytesForTest(int32_t sequence) const {
  const Sequence& entry = At(sequence);
  const size_t element = ElementBytes(shape_.type);
  std::vector<uint8_t> bytes;
  for (size_t index = 0; index < NumSides(shape_); ++index) {
    const uint8_t* side = entry.buffer.data() + index * SideBytes(shape_, entry.padded_slots);
    for (int64_t head = 0; head < shape_.num_kv_heads; ++head) {
      for (int64_t slot = 0; slot < entry.length; ++slot) {
        const HeadPlace place =
            PlaceOf(index % 2 == 0, head, slot, entry.padded_slots, shape_.head_dim);
        for (int64_t d = 0; d < shape_.head_dim; ++d) {
          const uint8_t* from =
              side + static_cast<size_t>(place.offset + d * place.stride) * element;
          bytes.insert(bytes.end(), from, from + element);
        }
      }
    }
  }
  return bytes;
}

}  // namespace tahmin
