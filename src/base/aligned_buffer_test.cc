#include "base/aligned_buffer.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

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

}  // namespace
}  // namespace tahmin
