// Owned, zero-filled memory for weights, the KV cache and scratch: 64-byte aligned, mapped straight
// from the kernel when it is large (>= 2 MiB), so that untouched pages cost nothing. Movable, not
// copyable. Creation fails with RESOURCE_EXHAUSTED, never with an exception. Not thread-safe to
// move; the bytes may be shared by threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"

namespace tahmin {

// How a large buffer is filled. A page is zeroed when it is first touched, huge ones whole.
enum class BufferUse {
  kWhole,      // all of it, or from its begin on: huge pages, which spare address translations
  kScattered,  // a little at many places at first, as a KV cache is: ordinary pages
};

class AlignedBuffer {
 public:
  static constexpr size_t kAlignment = 64;

  AlignedBuffer() = default;
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  ~AlignedBuffer();

  static absl::StatusOr<AlignedBuffer> Create(size_t num_bytes, BufferUse use = BufferUse::kWhole);

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t num_bytes() const { return num_bytes_; }

  template <typename T>
  std::span<T> As() {
    return {reinterpret_cast<T*>(data_), num_bytes_ / sizeof(T)};
  }
  template <typename T>
  std::span<const T> As() const {
    return {reinterpret_cast<const T*>(data_), num_bytes_ / sizeof(T)};
  }

 private:
  uint8_t* data_ = nullptr;
  size_t num_bytes_ = 0;
  size_t mapped_bytes_ = 0;  // 0: from the heap
};

}  // namespace tahmin
