#include "draft/recycling_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace tahmin {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<int32_t> TokensOf(const RecyclingMatrix::Row& row) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < RecyclingMatrix::kSuccessors && row.shares[i] > 0; ++i) {
    tokens.push_back(row.tokens[i]);
  }
  return tokens;
}

// The definition: all ids sorted.
std::vector<int32_t> SlowBest(const std::vector<float>& logits) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  while (!ids.empty() && logits[ids.back()] == -kInfinity) ids.pop_back();
  ids.resize(std::min<size_t>(ids.size(), RecyclingMatrix::kSuccessors));
  return ids;
}

TEST(RecyclingMatrix, KeepsTheEightLargestLogitsOfARow) {
  std::mt19937 generator(1);
  for (const int32_t vocab_size : {1, 5, 8, 63, 64, 65, 500, 512, 513, 5000}) {
    RecyclingMatrix matrix(vocab_size);
    for (int32_t round = 0; round < 40; ++round) {
      // Few different values, so that ties are everywhere; some tokens are banned.
      const int32_t num_values = round % 2 == 0 ? 12 : 100000;
      std::vector<float> logits(vocab_size + round % 3);  // rows may be padded
      for (float& logit : logits) logit = static_cast<float>(generator() % num_values) * 0.01f;
      for (size_t i = 0; i < logits.size(); i += 7) {
        if (round % 4 == 3) logits[i] = -kInfinity;
      }
      if (round == 39) std::sort(logits.begin(), logits.end());
      std::vector<float> valid(logits.begin(), logits.begin() + vocab_size);
      const std::vector<int32_t> expected = SlowBest(valid);
      const int32_t token = round % vocab_size;
      const std::vector<int32_t> before = TokensOf(matrix.Find(3, token).row);
      matrix.StoreLogits(3, token, logits);
      ASSERT_EQ(TokensOf(matrix.Find(3, token).row), expected.empty() ? before : expected)
          << vocab_size << " ids, round " << round;
    }
  }
}

TEST(RecyclingMatrix, ProbabilitiesAreNearTheSoftmax) {
  std::mt19937 generator(2);
  std::normal_distribution<float> normal;
  RecyclingMatrix matrix(5000);
  for (const float spread : {1.0f, 2.0f, 3.0f}) {
    for (const float lead : {0.0f, 4.0f, 12.0f}) {
      std::vector<float> logits(5000);
      for (float& logit : logits) logit = spread * normal(generator);
      logits[1234] = *std::max_element(logits.begin(), logits.end()) + lead;
      double total = 0;
      for (const float logit : logits) total += std::exp(logit - logits[1234]);
      matrix.StoreLogits(0, 1, logits);
      const RecyclingMatrix::Row& row = matrix.Find(0, 1).row;
      ASSERT_EQ(row.tokens[0], 1234);
      // What is left out of the denominator can only make it larger (but for the rough exponential
      // and the last unit); a row of one token is exact.
      EXPECT_GE(row.ProbabilityOf(0), 0.95 / total - 1e-4);
      EXPECT_LE(row.ProbabilityOf(0), 1.0f);
      EXPECT_LE(row.ProbabilityOf(0), lead == 12.0f ? 1 / total + 0.05 : 1.0);
      float sum = 0;
      for (int32_t i = 0; i < RecyclingMatrix::kSuccessors; ++i) sum += row.ProbabilityOf(i);
      EXPECT_LE(sum, 1.001f);
      for (int32_t i = 1; i < RecyclingMatrix::kSuccessors; ++i) {
        EXPECT_LE(row.shares[i], row.shares[i - 1]);
      }
    }
  }
}

TEST(RecyclingMatrix, BrokenRowsChangeNothing) {
  RecyclingMatrix matrix(100);
  std::vector<float> logits(100, 0.0f);
  logits[42] = 5;
  matrix.StoreLogits(1, 2, logits);
  for (const float broken : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
    std::vector<float> row = logits;
    row[42] = 0;
    row[77] = broken;
    matrix.StoreLogits(1, 2, row);
    EXPECT_EQ(matrix.Find(1, 2).row.tokens[0], 42);
  }
  matrix.StoreLogits(1, 2, std::vector<float>(100, -kInfinity));
  EXPECT_EQ(matrix.Find(1, 2).row.tokens[0], 42);
  matrix.StoreLogits(1, 100, logits);  // no id
  matrix.StoreLogits(1, -1, logits);
  matrix.StoreFollower(1, 2, 100);
  EXPECT_EQ(matrix.Find(1, 2).row.tokens[0], 42);
}

TEST(RecyclingMatrix, PairsHaveRowsOfTheirOwn) {
  RecyclingMatrix matrix(100);
  std::vector<float> first(100, 0.0f), second(100, 0.0f);
  first[10] = second[20] = 5;
  matrix.StoreLogits(1, 7, first);
  matrix.StoreLogits(2, 7, second);
  EXPECT_TRUE(matrix.Find(1, 7).knows_pair);
  EXPECT_EQ(matrix.Find(1, 7).row.tokens[0], 10);
  EXPECT_EQ(matrix.Find(2, 7).row.tokens[0], 20);
  // Behind any other token: what was seen last.
  EXPECT_FALSE(matrix.Find(3, 7).knows_pair);
  EXPECT_EQ(matrix.Find(3, 7).row.tokens[0], 20);
  EXPECT_FALSE(matrix.Find(-1, 7).knows_pair);
  EXPECT_TRUE(TokensOf(matrix.Find(1, 8).row).empty());
}

TEST(RecyclingMatrix, PairsTakeEachOthersPlaceAndMemoryStaysAsItIs) {
  RecyclingMatrix matrix(2000);
  const size_t bytes = matrix.allocated_bytes();
  EXPECT_EQ(bytes, (2000 + RecyclingMatrix::kPairRows) * 64);
  for (int32_t i = 0; i < 400000; ++i) {
    matrix.StoreFollower(i / 2000, i % 2000, (i * 7) % 2000);
    const auto [row, knows_pair] = matrix.Find(i / 2000, i % 2000);
    ASSERT_TRUE(knows_pair);
    ASSERT_EQ(row.tokens[0], (i * 7) % 2000);
  }
  EXPECT_EQ(matrix.allocated_bytes(), bytes);
}

TEST(RecyclingMatrix, FollowersGoUpInRank) {
  RecyclingMatrix matrix(100);
  for (int32_t follower = 0; follower < 20; ++follower) matrix.StoreFollower(5, 6, follower);
  EXPECT_EQ(TokensOf(matrix.Find(5, 6).row),
            (std::vector<int32_t>{19, 18, 17, 16, 15, 14, 13, 12}));
  matrix.StoreFollower(5, 6, 14);
  EXPECT_EQ(TokensOf(matrix.Find(5, 6).row),
            (std::vector<int32_t>{14, 19, 18, 17, 16, 15, 13, 12}));
  EXPECT_NEAR(matrix.Find(5, 6).row.ProbabilityOf(0), 0.5, 0.05);
}

TEST(SuccessorAcceptance, LearnsFrequenciesAndForgets) {
  SuccessorAcceptance acceptance;
  const float prior = acceptance.Of(true, 0, 0.9f);
  EXPECT_NEAR(prior, 0.72f, 0.01f);
  for (int32_t i = 0; i < 4000; ++i) acceptance.Learn(true, 0, 0.9f, i % 4 == 0);
  EXPECT_NEAR(acceptance.Of(true, 0, 0.93f), 0.25f, 0.03f);
  EXPECT_EQ(acceptance.Of(true, 0, 0.5f), SuccessorAcceptance().Of(true, 0, 0.5f));
  EXPECT_EQ(acceptance.Of(false, 0, 0.9f), SuccessorAcceptance().Of(false, 0, 0.9f));
  EXPECT_EQ(acceptance.Of(true, 1, 0.9f), SuccessorAcceptance().Of(true, 1, 0.9f));
  for (int32_t i = 0; i < 4000; ++i) acceptance.Learn(true, 0, 0.9f, true);
  EXPECT_GT(acceptance.Of(true, 0, 0.9f), 0.95f);
  EXPECT_LT(acceptance.Of(true, 0, 1.0f), 1.0f);
}

}  // namespace
}  // namespace tahmin
