// A pass allocates nothing: counted through the global operator new of this test program.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "model/model_fixture.h"

namespace {
std::atomic<int64_t> num_allocations{0};
}  // namespace

void* operator new(size_t num_bytes) {
  ++num_allocations;
  if (void* memory = std::malloc(num_bytes == 0 ? 1 : num_bytes)) return memory;
  throw std::bad_alloc();
}
// std::stable_sort asks for this one; without it memory of one allocator would be freed by another.
void* operator new(size_t num_bytes, const std::nothrow_t&) noexcept {
  ++num_allocations;
  return std::malloc(num_bytes == 0 ? 1 : num_bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace tahmin {
namespace {

TEST(Forward, AllocatesNothing) {
  const TinyModel model{TinyModelOptions{}};
  ModelDriver driver(*model);
  const int32_t sequence = driver.AddSequence();
  const Tokens tokens = RandomTokens(64, 300, 3);
  for (const int32_t count : {1, 7, 64}) {
    TokenBatch batch;
    batch.AppendChain(sequence, tokens.data(), count, true);
    ASSERT_TRUE(driver.cache().Reserve(sequence, count).ok());
    model->Forward(batch, driver.cache(), driver.scratch(), driver.pool());
    const int64_t before = num_allocations;
    model->Forward(batch, driver.cache(), driver.scratch(), driver.pool());
    EXPECT_EQ(num_allocations - before, 0) << count << " rows";
    driver.cache().Rollback(sequence);
  }
}

}  // namespace
}  // namespace tahmin
