#include "base/aligned_buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace tahmin {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

size_t RoundUp(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// A zeroed mapping that starts on a huge-page boundary, or nullptr. The kernel aligns only to small
// pages, so more is mapped and both ends are given back.
uint8_t* MapHugeAligned(size_t mapped_bytes, BufferUse use) {
  const size_t reserved_bytes = mapped_bytes + kHugePageBytes;
  void* reserved =
      mmap(nullptr, reserved_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(reserved);
  const uintptr_t aligned = RoundUp(begin, kHugePageBytes);
  const size_t head_bytes = aligned - begin;
  const size_t tail_bytes = reserved_bytes - head_bytes - mapped_bytes;
  if (head_bytes > 0) munmap(reserved, head_bytes);
  if (tail_bytes > 0) munmap(reinterpret_cast<void*>(aligned + mapped_bytes), tail_bytes);
  auto* data = reinterpret_cast<uint8_t*>(aligned);
  // Advice: a kernel without huge pages refuses it.
  madvise(data, mapped_bytes, use == BufferUse::kWhole ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return data;
}

void Release(uint8_t* data, size_t mapped_bytes) {
  if (mapped_bytes > 0) {
    munmap(data, mapped_bytes);
  } else {
    std::free(data);
  }
}

}  // namespace

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      num_bytes_(std::exchange(other.num_bytes_, 0)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  if (this == &other) return *this;
  Release(data_, mapped_bytes_);
  data_ = std::exchange(other.data_, nullptr);
  num_bytes_ = std::exchange(other.num_bytes_, 0);
  mapped_bytes_ = std::exchange(other.mapped_bytes_, 0);
  return *this;
}

AlignedBuffer::~AlignedBuffer() { Release(data_, mapped_bytes_); }

absl::StatusOr<AlignedBuffer> AlignedBuffer::Create(size_t num_bytes, BufferUse use) {
  AlignedBuffer buffer;
  if (num_bytes == 0) return buffer;
  const auto refused = [num_bytes] {
    return absl::ResourceExhaustedError(
        fmt::format("memory: the system refused a buffer of {} bytes", num_bytes));
  };
  if (num_bytes > std::numeric_limits<size_t>::max() - 2 * kHugePageBytes) return refused();
  if (num_bytes >= kHugePageBytes) {
    const size_t mapped_bytes = RoundUp(num_bytes, static_cast<size_t>(sysconf(_SC_PAGESIZE)));
    buffer.data_ = MapHugeAligned(mapped_bytes, use);
    if (buffer.data_ == nullptr) return refused();
    buffer.mapped_bytes_ = mapped_bytes;
  } else {
    const size_t heap_bytes = RoundUp(num_bytes, kAlignment);
    buffer.data_ = static_cast<uint8_t*>(std::aligned_alloc(kAlignment, heap_bytes));
    if (buffer.data_ == nullptr) return refused();
    std::memset(buffer.data_, 0, heap_bytes);
  }
  buffer.num_bytes_ = num_bytes;
  return buffer;
}

}  // namespace tahmin
