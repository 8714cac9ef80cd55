#include "kv/kv_cache.h"

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "step/kv_layout.h"

namespace tahmin {
namespace {

using ::testing::HasSubstr;

// Every element of (sequence tag, token tag, layer, side, head, element) has its own bits, so a
// byte that lands in the wrong place shows.
uint32_t Element(int tag, int token, int layer, int side, int head, int element) {
  uint32_t bits = static_cast<uint32_t>(tag);
  for (int part : {token, layer, side, head, element})
    bits = bits * 31u + static_cast<uint32_t>(part) + 7u;
  return bits;
}

size_t Bytes(KvType type) { return type == KvType::kF16 ? 2 : 4; }

void WriteSlot(KvCache& cache, int32_t sequence, int64_t slot, int tag, int token) {
  const KvShape& shape = cache.shape();
  const size_t size = Bytes(shape.type);
  for (int layer = 0; layer < shape.num_layers; ++layer) {
    const KvView view = cache.View(sequence, layer);
    for (int side = 0; side < 2; ++side) {
      auto* base = static_cast<uint8_t*>(side == 0 ? view.keys : view.values);
      for (int head = 0; head < shape.num_kv_heads; ++head) {
        for (int e = 0; e < shape.head_dim; ++e) {
          const uint32_t bits = Element(tag, token, layer, side, head, e);
          const int64_t offset =
              side == 0
                  ? KeyOffset(head, slot, view.num_slots, shape.head_dim) + e * kAttentionBlock
                  : ValueOffset(head, slot, view.num_slots, shape.head_dim) + e;
          std::memcpy(base + offset * size, &bits, size);
        }
      }
    }
  }
}

std::vector<uint8_t> Expected(const KvShape& shape, int tag, const std::vector<int>& tokens) {
  std::vector<uint8_t> bytes;
  for (int layer = 0; layer < shape.num_layers; ++layer) {
    for (int side = 0; side < 2; ++side) {
      for (int head = 0; head < shape.num_kv_heads; ++head) {
        for (int token : tokens) {
          for (int e = 0; e < shape.head_dim; ++e) {
            const uint32_t value = Element(tag, token, layer, side, head, e);
            const auto* from = reinterpret_cast<const uint8_t*>(&value);
            bytes.insert(bytes.end(), from, from + Bytes(shape.type));
          }
        }
      }
    }
  }
  return bytes;
}

class KvCacheTest : public ::testing::TestWithParam<KvType> {
 protected:
  KvShape shape_{.num_layers = 3, .num_kv_heads = 2, .head_dim = 5, .type = GetParam()};
  KvCache cache_{shape_};

  // Writes tree slots 0 .. tokens.size() - 1 and commits `path`.
  void Step(int32_t sequence, int tag, const std::vector<int>& tokens,
            const std::vector<int32_t>& path) {
    ASSERT_TRUE(cache_.Reserve(sequence, static_cast<int64_t>(tokens.size())).ok());
    const int64_t length = cache_.Length(sequence);
    for (size_t i = 0; i < tokens.size(); ++i) {
      WriteSlot(cache_, sequence, length + static_cast<int64_t>(i), tag, tokens[i]);
    }
    cache_.Commit(sequence, path);
  }
};

INSTANTIATE_TEST_SUITE_P(Types, KvCacheTest, ::testing::Values(KvType::kF16, KvType::kF32),
                         [](const auto& info) {
                           return std::string(info.param == KvType::kF16 ? "F16" : "F32");
                         });

TEST_P(KvCacheTest, BytesPerTokenCountsKeysAndValuesOfAllLayers) {
  EXPECT_EQ(shape_.BytesPerToken(), 3u * 2 * 2 * 5 * Bytes(GetParam()));
}

TEST_P(KvCacheTest, CommitKeepsThePathAndFreesTheRest) {
  const int32_t sequence = cache_.AddSequence(16).value();
  Step(sequence, 1, {10, 11, 12}, {0, 1, 2});
  Step(sequence, 1, {20, 21, 22, 23, 24}, {0, 2, 4});
  EXPECT_EQ(cache_.Length(sequence), 6);
  EXPECT_EQ(cache_.Reserved(sequence), 0);
  EXPECT_EQ(cache_.CommittedBytesForTest(sequence), Expected(shape_, 1, {10, 11, 12, 20, 22, 24}));
  Step(sequence, 1, {30, 31, 32}, {2});
  EXPECT_EQ(cache_.CommittedBytesForTest(sequence),
            Expected(shape_, 1, {10, 11, 12, 20, 22, 24, 32}));
}

// From a block of slots into the one before it, and within both.
TEST_P(KvCacheTest, PathsAcrossTheEndOfABlock) {
  const int32_t sequence = cache_.AddSequence(90).value();
  std::vector<int> committed;
  for (int round = 0; committed.size() < 70; ++round) {
    const int base = 100 * round;
    Step(sequence, 1, {base, base + 1, base + 2, base + 3, base + 4, base + 5, base + 6},
         {1, 3, 6});
    for (int node : {1, 3, 6}) committed.push_back(base + node);
    ASSERT_EQ(cache_.CommittedBytesForTest(sequence), Expected(shape_, 1, committed)) << round;
  }
}

TEST_P(KvCacheTest, EmptyPathAndRollbackLeaveThePrefix) {
  const int32_t sequence = cache_.AddSequence(8).value();
  Step(sequence, 1, {1, 2}, {0, 1});
  Step(sequence, 1, {3, 4, 5}, {});
  EXPECT_EQ(cache_.CommittedBytesForTest(sequence), Expected(shape_, 1, {1, 2}));
  ASSERT_TRUE(cache_.Reserve(sequence, 6).ok());
  EXPECT_EQ(cache_.Reserved(sequence), 6);
  WriteSlot(cache_, sequence, 2, 1, 99);
  cache_.Rollback(sequence);
  EXPECT_EQ(cache_.Reserved(sequence), 0);
  EXPECT_EQ(cache_.CommittedBytesForTest(sequence), Expected(shape_, 1, {1, 2}));
}

TEST_P(KvCacheTest, TruncateThenContinueEqualsAFreshRun) {
  const int32_t sequence = cache_.AddSequence(8).value();
  Step(sequence, 1, {1, 2, 3, 4, 5}, {0, 1, 2, 3, 4});
  cache_.Truncate(sequence, 2);
  EXPECT_EQ(cache_.Length(sequence), 2);
  Step(sequence, 1, {7, 8, 9, 6, 5, 4}, {1, 3, 5});
  EXPECT_EQ(cache_.CommittedBytesForTest(sequence), Expected(shape_, 1, {1, 2, 8, 6, 4}));
}

TEST_P(KvCacheTest, InterleavedSequencesDoNotTouchEachOther) {
  std::vector<int32_t> handles;
  std::vector<std::vector<int>> committed(4);
  for (int s = 0; s < 4; ++s) handles.push_back(cache_.AddSequence(20 + s).value());
  for (int round = 0; round < 5; ++round) {
    for (int s = 3; s >= 0; --s) {
      const int base = 100 * s + 10 * round;
      const std::vector<int32_t> path =
          s % 2 == 0 ? std::vector<int32_t>{0, 2} : std::vector<int32_t>{1, 2, 3};
      Step(handles[s], s, {base, base + 1, base + 2, base + 3}, path);
      for (int32_t node : path) committed[s].push_back(base + node);
    }
  }
  for (int s = 0; s < 4; ++s) {
    EXPECT_EQ(cache_.CommittedBytesForTest(handles[s]), Expected(shape_, s, committed[s])) << s;
  }
}

TEST_P(KvCacheTest, HandleOfARemovedSequenceIsUsedAgainAndEmpty) {
  const int32_t first = cache_.AddSequence(4).value();
  const int32_t second = cache_.AddSequence(6).value();
  const int32_t third = cache_.AddSequence(8).value();
  EXPECT_EQ(cache_.allocated_bytes(), 3 * 32 * shape_.BytesPerToken());  // a block each
  Step(second, 2, {1, 2}, {0, 1});
  Step(third, 3, {5}, {0});
  cache_.RemoveSequence(second);
  EXPECT_EQ(cache_.allocated_bytes(), 2 * 32 * shape_.BytesPerToken());
  const int32_t again = cache_.AddSequence(10).value();
  EXPECT_EQ(again, second);
  EXPECT_EQ(cache_.Length(again), 0);
  EXPECT_EQ(cache_.Capacity(again), 10);
  EXPECT_EQ(cache_.CommittedBytesForTest(third), Expected(shape_, 3, {5}));
  EXPECT_EQ(cache_.Capacity(first), 4);
}

TEST_P(KvCacheTest, ReserveBeyondCapacityNamesBothNumbersAndChangesNothing) {
  const int32_t sequence = cache_.AddSequence(7).value();
  Step(sequence, 1, {1, 2}, {0, 1});
  const absl::Status status = cache_.Reserve(sequence, 6);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("6 tree slots wanted"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("5 of 7 free"));
  EXPECT_EQ(cache_.Reserved(sequence), 0);
  EXPECT_TRUE(cache_.Reserve(sequence, 5).ok());
  EXPECT_EQ(cache_.Reserve(sequence, 1).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(cache_.Reserved(sequence), 5);
}

TEST_P(KvCacheTest, AbsurdSizeIsRefusedNotAttempted) {
  const absl::StatusOr<int32_t> sequence = cache_.AddSequence(INT64_MAX / 2);
  EXPECT_EQ(sequence.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(cache_.allocated_bytes(), 0u);
}

TEST_P(KvCacheTest, PathOutOfOrderIsABrokenInvariant) {
  const int32_t sequence = cache_.AddSequence(8).value();
  ASSERT_TRUE(cache_.Reserve(sequence, 3).ok());
  const std::vector<int32_t> descending = {2, 1}, outside = {0, 3};
  EXPECT_DEATH(cache_.Commit(sequence, descending), "broken invariant");
  EXPECT_DEATH(cache_.Commit(sequence, outside), "broken invariant");
}

}  // namespace
}  // namespace tahmin
