#include "sampling/logprobs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tahmin {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(LogSumExp, SumsAndSurvivesLargeLogits) {
  EXPECT_NEAR(LogSumExp(std::vector<float>{std::log(1.0f), std::log(2.0f), std::log(5.0f)}),
              std::log(8.0), 1e-7);
  EXPECT_NEAR(LogSumExp(std::vector<float>{1000, 1000}), 1000 + std::log(2.0), 1e-12);
  EXPECT_NEAR(LogSumExp(std::vector<float>{-1000, -kInf}), -1000, 1e-12);
  EXPECT_EQ(LogSumExp(std::vector<float>{-kInf, -kInf}), -kInf);
  EXPECT_EQ(LogSumExp({}), -kInf);
}

TEST(TopLogprobs, B18LargestFirstTiesToTheLowestId) {
  std::vector<float> logits(300, 0.0f);
  logits[250] = 2;
  logits[7] = 1;
  logits[100] = 1;
  const double log_sum = std::log(297 + std::exp(2.0) + 2 * std::exp(1.0));
  const std::vector<TokenLogprob> top = TopLogprobs(logits, 5);
  ASSERT_EQ(top.size(), 5u);
  const int32_t tokens[] = {250, 7, 100, 0, 1};
  const double values[] = {2, 1, 1, 0, 0};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(top[i].token, tokens[i]);
    EXPECT_NEAR(top[i].logprob, values[i] - log_sum, 1e-6);
  }
}

TEST(TopLogprobs, NeverMoreThanThereAre) {
  EXPECT_TRUE(TopLogprobs(std::vector<float>{1, 2}, 0).empty());
  EXPECT_EQ(TopLogprobs(std::vector<float>{1, 2}, 9).size(), 2u);
  EXPECT_EQ(TopLogprobs(std::vector<float>{1, -kInf}, 2).size(), 1u);  // JSON has no -infinity
}

}  // namespace
}  // namespace tahmin
