#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/half.h"
#include "base/thread_pool.h"
#include "gtest/gtest.h"
#include "kernels/each_target_test.h"
#include "kernels/kernels.h"
#include "kernels/reference/operations_reference.h"
#include "step/kv_layout.h"

namespace tahmin::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

AttentionShape MakeShape(int32_t num_heads, int32_t num_kv_heads, int32_t head_dim,
                         int64_t window = 0) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  return {num_heads, num_kv_heads, head_dim, scale, window};
}

// Key or value of a logical token: a pure function of its name, wherever it is stored.
float TokenValue(int64_t token, int side, int32_t head, int32_t d) {
  uint64_t bits = static_cast<uint64_t>(token) * 0x9e3779b97f4a7c15u +
                  static_cast<uint64_t>(side) * 7919 + static_cast<uint64_t>(head) * 104729 +
                  static_cast<uint64_t>(d) * 1299709;
  bits ^= bits >> 31;
  bits *= 0xbf58476d1ce4e5b9u;
  bits ^= bits >> 29;
  return static_cast<float>(static_cast<double>(bits >> 40) / (1 << 23) - 1.0) * 2.0f;
}

// A cache of one layer; every slot that was not written holds NaN.
class Cache {
 public:
  Cache(const AttentionShape& shape, int64_t num_slots, bool is_half)
      : shape_(shape), num_slots_(PaddedSlots(num_slots)), is_half_(is_half) {
    const size_t size = static_cast<size_t>(shape.num_kv_heads * num_slots_ * shape.head_dim);
    for (int side = 0; side < 2; ++side) {
      floats_[side].assign(size, kNan);
      halves_[side].assign(size, 0x7e00);
    }
  }

  void Write(int64_t slot, int64_t token) {
    for (int side = 0; side < 2; ++side) {
      for (int32_t head = 0; head < shape_.num_kv_heads; ++head) {
        for (int32_t d = 0; d < shape_.head_dim; ++d)
          Set(side, head, slot, d, TokenValue(token, side, head, d));
      }
    }
  }
  void Fill(int64_t num_tokens) {
    for (int64_t i = 0; i < num_tokens; ++i) Write(i, i);
  }
  void Set(int side, int32_t head, int64_t slot, int32_t d, float value) {
    const int64_t index =
        side == 0 ? KeyOffset(head, slot, num_slots_, shape_.head_dim) + d * kAttentionBlock
                  : ValueOffset(head, slot, num_slots_, shape_.head_dim) + d;
    floats_[side][index] = value;
    halves_[side][index] = FloatToHalf(value);
  }

  KvRows rows() const {
    if (is_half_) return {halves_[0].data(), halves_[1].data(), num_slots_, true};
    return {floats_[0].data(), floats_[1].data(), num_slots_, false};
  }

 private:
  AttentionShape shape_;
  int64_t num_slots_;
  bool is_half_;
  std::vector<float> floats_[2];
  std::vector<uint16_t> halves_[2];
};

// A row with its own memory.
struct OwnedRow {
  std::vector<float> queries, out;
  std::vector<int32_t> tail;
  KvRows kv;
  int64_t prefix_length = 0;

  OwnedRow(const AttentionShape& shape, uint32_t seed, const KvRows& cache, int64_t prefix,
           std::vector<int32_t> tail_slots = {})
      : tail(std::move(tail_slots)), kv(cache), prefix_length(prefix) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal(0.0f, 1.5f);
    queries.resize(static_cast<size_t>(shape.num_heads * shape.head_dim));
    for (float& value : queries) value = normal(generator);
    out.assign(queries.size(), kNan);
  }
  AttentionRow View() {
    return {queries.data(), out.data(),  kv,
            prefix_length,  tail.data(), static_cast<int32_t>(tail.size())};
  }
};

void Compute(std::vector<OwnedRow>& rows, const AttentionShape& shape, int num_threads = 1) {
  ThreadPool pool(num_threads);
  // Scratch of an earlier call holds anything.
  std::vector<float> scratch(AttentionScratchFloats(shape) * num_threads, kNan);
  std::vector<AttentionRow> views;
  for (OwnedRow& row : rows) {
    row.out.assign(row.out.size(), kNan);
    views.push_back(row.View());
  }
  Attention(views, shape, scratch.data(), pool);
}

std::vector<float> Alone(const OwnedRow& row, const AttentionShape& shape) {
  std::vector<OwnedRow> rows = {row};
  Compute(rows, shape);
  return rows[0].out;
}

::testing::AssertionResult SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) || std::memcmp(&a[i], &b[i], sizeof(float)) != 0) {
      return ::testing::AssertionFailure() << "value " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

void ExpectNearReference(OwnedRow& row, const AttentionShape& shape) {
  std::vector<double> expected(row.queries.size());
  reference::Attention(row.View(), shape, expected.data());
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(row.out[i], expected[i], 1e-5) << i;
}

using AttentionTest = EachTargetTest;
INSTANTIATE_TEST_SUITE_P(Targets, AttentionTest, EachTarget(), TargetChoiceName);

TEST_P(AttentionTest, MatchesTheReference) {
  const AttentionShape shapes[] = {MakeShape(1, 1, 16),  MakeShape(9, 3, 64),   MakeShape(4, 4, 80),
                                   MakeShape(14, 2, 64), MakeShape(12, 2, 128), MakeShape(2, 1, 96),
                                   MakeShape(4, 2, 256), MakeShape(5, 1, 20),   MakeShape(2, 2, 7)};
  for (const AttentionShape& shape : shapes) {
    for (bool is_half : {true, false}) {
      Cache cache(shape, 130, is_half);
      cache.Fill(100);
      std::vector<OwnedRow> rows;
      for (int64_t length : {1, 2, 31, 32, 33, 63, 64, 65, 100}) {
        rows.emplace_back(shape, static_cast<uint32_t>(length), cache.rows(), length);
      }
      Compute(rows, shape);
      for (OwnedRow& row : rows) {
        SCOPED_TRACE(::testing::Message() << shape.num_heads << "/" << shape.num_kv_heads << " x "
                                          << shape.head_dim << ", length " << row.prefix_length);
        ExpectNearReference(row, shape);
      }
    }
  }
}

TEST_P(AttentionTest, ManyQueryHeadsOfOneKeyHead) {
  const AttentionShape shape = MakeShape(71, 1, 32);  // more than one task can hold
  Cache cache(shape, 50, true);
  cache.Fill(40);
  std::vector<OwnedRow> rows;
  for (int64_t i = 0; i < 3; ++i) rows.emplace_back(shape, 5 + i, cache.rows(), 38 + i);
  Compute(rows, shape, 3);
  for (OwnedRow& row : rows) ExpectNearReference(row, shape);
}

TEST_P(AttentionTest, RowAloneEqualsRowInAnyBatchOnAnyThreadCount) {
  for (const AttentionShape& shape :
       {MakeShape(9, 3, 64), MakeShape(4, 4, 16), MakeShape(7, 1, 80)}) {
    Cache cache(shape, 600, true);
    cache.Fill(600);
    std::vector<OwnedRow> all;
    for (int64_t i = 0; i < 70; ++i)
      all.emplace_back(shape, 100 + i, cache.rows(), 1 + i * 8 % 600);
    for (int64_t i = 0; i < 40; ++i) all.emplace_back(shape, 300 + i, cache.rows(), 500 + i);
    std::vector<std::vector<float>> alone;
    for (const OwnedRow& row : all) alone.push_back(Alone(row, shape));
    for (size_t batch : {2, 3, 4, 5, 8, 16, 17, 33, 64, 110}) {
      for (int threads : {1, 2, 3, 5}) {
        const size_t begin = (all.size() - batch) / 2;
        std::vector<OwnedRow> rows(all.begin() + begin, all.begin() + begin + batch);
        Compute(rows, shape, threads);
        for (size_t i = 0; i < batch; ++i) {
          ASSERT_TRUE(SameBits(alone[begin + i], rows[i].out))
              << batch << " rows, " << threads << " threads";
        }
      }
    }
  }
}

TEST_P(AttentionTest, TreeSlotsGiveTheBitsOfCommittedStorage) {
  const AttentionShape shape = MakeShape(6, 2, 64);
  for (bool is_half : {true, false}) {
    for (int64_t prefix : {0, 1, 31, 32, 33, 63, 64, 65, 500}) {
      for (int32_t tail_size : {1, 2, 5, 33, 40}) {
        Cache committed(shape, prefix + 200, is_half), tree(shape, prefix + 200, is_half);
        committed.Fill(prefix + tail_size);
        tree.Fill(prefix);
        std::vector<int32_t> slots;
        for (int32_t i = 0; i < tail_size; ++i) {
          // The first two lie in place (a chain that branches), the others apart.
          slots.push_back(static_cast<int32_t>(prefix + (i < 2 ? i : 4 + 3 * i)));
          tree.Write(slots.back(), prefix + i);
        }
        std::vector<OwnedRow> rows = {
            OwnedRow(shape, 1, committed.rows(), prefix + tail_size),
            OwnedRow(shape, 1, tree.rows(), prefix, slots),
        };
        Compute(rows, shape, 2);
        ASSERT_TRUE(SameBits(rows[0].out, rows[1].out)) << prefix << " + " << tail_size;
        ExpectNearReference(rows[1], shape);
      }
    }
  }
}

TEST_P(AttentionTest, BranchesOfOneTreeInOneBatch) {
  const AttentionShape shape = MakeShape(6, 2, 64);
  const int64_t prefix = 61;
  Cache cache(shape, 90, true);
  cache.Fill(prefix);
  // Two branches behind a root: slots root, a1, b1, a2, b2, a3, b3; tokens of branch b start at
  // 1000.
  const std::vector<std::vector<int32_t>> paths = {{0},       {0, 1},       {0, 2},      {0, 1, 3},
                                                   {0, 2, 4}, {0, 1, 3, 5}, {0, 2, 4, 6}};
  const int64_t tokens[] = {500, 501, 1001, 502, 1002, 503, 1003};
  std::vector<OwnedRow> rows;
  for (size_t node = 0; node < paths.size(); ++node) {
    cache.Write(prefix + static_cast<int64_t>(node), tokens[node]);
    std::vector<int32_t> slots;
    for (int32_t ancestor : paths[node]) slots.push_back(static_cast<int32_t>(prefix) + ancestor);
    rows.emplace_back(shape, 40 + static_cast<uint32_t>(node), cache.rows(), prefix, slots);
  }
  for (int threads : {1, 2, 3}) {
    Compute(rows, shape, threads);
    for (size_t node = 0; node < paths.size(); ++node) {
      Cache plain(shape, 90, true);
      plain.Fill(prefix);
      for (size_t i = 0; i < paths[node].size(); ++i) {
        plain.Write(prefix + static_cast<int64_t>(i), tokens[paths[node][i]]);
      }
      OwnedRow row(shape, 40 + static_cast<uint32_t>(node), plain.rows(),
                   prefix + static_cast<int64_t>(paths[node].size()));
      ASSERT_TRUE(SameBits(Alone(row, shape), rows[node].out)) << "node " << node;
    }
  }
}

TEST_P(AttentionTest, TwoSequencesInOneBatch) {
  const AttentionShape shape = MakeShape(4, 2, 64);
  Cache first(shape, 100, true), second(shape, 77, true);
  first.Fill(90);
  for (int64_t i = 0; i < 70; ++i) second.Write(i, 5000 + i);
  std::vector<OwnedRow> rows;
  for (uint32_t i = 0; i < 12; ++i) {
    const bool is_first = i % 4 < 2;
    rows.emplace_back(shape, i, is_first ? first.rows() : second.rows(), 40 + 2 * i);
  }
  for (int threads : {1, 2, 5}) {
    Compute(rows, shape, threads);
    for (OwnedRow& row : rows) {
      ASSERT_TRUE(SameBits(Alone(row, shape), row.out));
      ExpectNearReference(row, shape);
    }
  }
}

TEST_P(AttentionTest, WindowSeesTheLastPositionsOnly) {
  for (int64_t window : {1, 2, 31, 32, 33, 50, 1000}) {
    const AttentionShape shape = MakeShape(4, 2, 64, window);
    for (int64_t length : {1, 32, 33, 65, 150}) {
      Cache cache(shape, 200, true);
      // What lies before the window is NaN: a key read there would show.
      for (int64_t i = std::max<int64_t>(0, length - window); i < length; ++i) cache.Write(i, i);
      std::vector<OwnedRow> rows = {OwnedRow(shape, 3, cache.rows(), length)};
      Compute(rows, shape);
      ASSERT_NO_FATAL_FAILURE(ExpectNearReference(rows[0], shape)) << window << " " << length;
      std::vector<int32_t> slots;
      Cache tree(shape, 200, true);
      const int64_t prefix = length / 2;
      for (int64_t i = std::max<int64_t>(0, length - window); i < prefix; ++i) tree.Write(i, i);
      for (int64_t i = prefix; i < length; ++i) {
        slots.push_back(static_cast<int32_t>(199 - (i - prefix)));
        if (i >= length - window) tree.Write(slots.back(), i);
      }
      ASSERT_TRUE(
          SameBits(rows[0].out, Alone(OwnedRow(shape, 3, tree.rows(), prefix, slots), shape)));
    }
  }
}

TEST_P(AttentionTest, WindowedRowsInABatchEqualRowsAlone) {
  const AttentionShape shape = MakeShape(6, 2, 64, 40);
  Cache cache(shape, 200, true);
  cache.Fill(200);
  std::vector<OwnedRow> rows;
  for (uint32_t i = 0; i < 37; ++i) rows.emplace_back(shape, i, cache.rows(), 100 + i);
  Compute(rows, shape, 2);
  for (const OwnedRow& row : rows) ASSERT_TRUE(SameBits(Alone(row, shape), row.out));
}

TEST_P(AttentionTest, NanOfAVisibleKeyReachesTheOutput) {
  const AttentionShape shape = MakeShape(4, 2, 64);
  for (int side : {0, 1}) {
    Cache cache(shape, 100, true);
    cache.Fill(70);
    cache.Set(side, 1, 33, 5, kNan);
    std::vector<OwnedRow> rows = {OwnedRow(shape, 3, cache.rows(), 70),
                                  OwnedRow(shape, 4, cache.rows(), 33)};
    Compute(rows, shape);
    EXPECT_TRUE(HasNoNan(rows[0].out.data(), 2 * 64));
    EXPECT_TRUE(std::isnan(rows[0].out[2 * 64 + 5]));
    EXPECT_TRUE(std::isnan(rows[0].out[3 * 64 + 5]));
    EXPECT_TRUE(HasNoNan(rows[1].out.data(), 4 * 64));
  }
}

TEST_P(AttentionTest, LargeScoresDoNotOverflow) {
  const AttentionShape shape = MakeShape(1, 1, 16);
  Cache cache(shape, 64, false);
  cache.Fill(50);
  OwnedRow row(shape, 1, cache.rows(), 50);
  for (float& value : row.queries) value *= 2000.0f;
  std::vector<OwnedRow> rows = {row};
  Compute(rows, shape);
  EXPECT_TRUE(HasNoNan(rows[0].out.data(), 16));
}

}  // namespace
}  // namespace tahmin::kernels
