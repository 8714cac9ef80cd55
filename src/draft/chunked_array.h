// An array that grows by chunks of equal size: no element ever moves, growing copies nothing, and
// the memory it takes is what it holds, within one chunk. For suffix automata (suffix_automaton.h),
// whose memory is bounded in bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace tahmin {

template <typename T>
class ChunkedArray {
 public:
  int32_t size() const { return size_; }
  T& operator[](int32_t index) { return chunks_[Chunk(index)][Offset(index)]; }
  const T& operator[](int32_t index) const { return chunks_[Chunk(index)][Offset(index)]; }

  void push_back(const T& value) {
    if (Chunk(size_) == chunks_.size()) chunks_.push_back(std::make_unique<T[]>(kChunkSize));
    (*this)[size_++] = value;
  }
  void clear() {
    chunks_ = decltype(chunks_)();
    size_ = 0;
  }
  int64_t BytesUsed() const {
    return static_cast<int64_t>(chunks_.size() * kChunkSize * sizeof(T) +
                                chunks_.capacity() * sizeof(chunks_[0]));
  }

 private:
  static constexpr uint32_t kChunkSize = 1024;
  static size_t Chunk(int32_t index) { return static_cast<uint32_t>(index) / kChunkSize; }
  static size_t Offset(int32_t index) { return static_cast<uint32_t>(index) % kChunkSize; }

  std::vector<std::unique_ptr<T[]>> chunks_;
  int32_t size_ = 0;
};

}  // namespace tahmin
