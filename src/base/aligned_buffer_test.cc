#include "base/aligned_buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tahmin {
namespace {

class AlignedBufferSizes : public testing::TestWithParam<size_t> {};

TEST_P(AlignedBufferSizes, IsAlignedZeroedAndWritableToTheLastByte) {
  auto buffer = AlignedBuffer::Create(GetParam());
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  ASSERT_EQ(buffer->num_bytes(), GetParam());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % AlignedBuffer::kAlignment, 0u);
  const auto bytes = buffer->As<uint8_t>();
  EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; }));
  bytes.front() = 1;
  bytes.back() = 2;
  EXPECT_EQ(buffer->data()[GetParam() - 1], 2);
}

INSTANTIATE_TEST_SUITE_P(HeapAndMapped, AlignedBufferSizes,
                         testing::Values(2, 63, 64, 65, 4096, (size_t{2} << 20) - 1,
                                         size_t{2} << 20, (size_t{2} << 20) + 1,
                                         (size_t{5} << 20) + 12345));

TEST(AlignedBuffer, LargeBuffersStartOnAHugePage) {
  auto buffer = AlignedBuffer::Create(size_t{3} << 20);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % (size_t{2} << 20), 0u);
}

TEST(AlignedBuffer, EmptyIsAllowed) {
  auto buffer = AlignedBuffer::Create(0);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(buffer->num_bytes(), 0u);
  EXPECT_TRUE(buffer->As<float>().empty());
}

TEST(AlignedBuffer, RefusalIsResourceExhausted) {
  for (const size_t num_bytes : {std::numeric_limits<size_t>::max(), size_t{1} << 60}) {
    auto buffer = AlignedBuffer::Create(num_bytes);
    ASSERT_FALSE(buffer.ok());
    EXPECT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted);
  }
}

TEST(AlignedBuffer, MoveHandsOverTheBytesAndEmptiesTheSource) {
  for (const size_t num_bytes : {size_t{100}, size_t{3} << 20}) {
    auto created = AlignedBuffer::Create(num_bytes);
    ASSERT_TRUE(created.ok());
    AlignedBuffer first = std::move(*created);
    uint8_t* data = first.data();
    data[99] = 7;
    AlignedBuffer second = std::move(first);
    EXPECT_EQ(second.data(), data);
    EXPECT_EQ(first.data(), nullptr);  // NOLINT(bugprone-use-after-move): this is the promise
    EXPECT_EQ(first.num_bytes(), 0u);
    auto other = AlignedBuffer::Create(10);
    ASSERT_TRUE(other.ok());
    *other = std::move(second);
    EXPECT_EQ(other->data()[99], 7);
    EXPECT_EQ(other->num_bytes(), num_bytes);
  }
}

TEST(AlignedBuffer, ViewCountsWholeElements) {
  auto buffer = AlignedBuffer::Create(10);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(buffer->As<float>().size(), 2u);
}

// A KV cache is touched at its layers' begins first: that must not zero it all.
TEST(AlignedBuffer, ScatteredUseTakesThePagesThatAreTouched) {
  constexpr size_t kStep = size_t{2} << 20, kNumTouched = 8;
  absl::StatusOr<AlignedBuffer> buffer =
      AlignedBuffer::Create(kNumTouched * kStep, BufferUse::kScattered);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  for (size_t i = 0; i < kNumTouched; ++i) buffer->data()[i * kStep] = 1;
  const size_t page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> is_resident(buffer->num_bytes() / page_bytes);
  ASSERT_EQ(mincore(buffer->data(), buffer->num_bytes(), is_resident.data()), 0);
  const auto num_resident = std::count_if(is_resident.begin(), is_resident.end(),
                                          [](unsigned char page) { return (page & 1) != 0; });
  EXPECT_EQ(num_resident, static_cast<std::ptrdiff_t>(kNumTouched));
}

}  // namespace
}  // namespace tahmin
