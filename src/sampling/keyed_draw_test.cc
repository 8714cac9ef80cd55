#include "sampling/keyed_draw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "hwy/highway.h"
#include "sampling/chi_square_for_test.h"

namespace tahmin {
namespace {

constexpr double kSmallestPValue = 1e-4;  // seeds are fixed: a test passes always or never

std::vector<Candidate> CandidatesOf(const std::vector<double>& probabilities) {
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] == 0) continue;
    candidates.push_back({static_cast<int32_t>(i), static_cast<float>(std::log(probabilities[i]))});
  }
  return candidates;
}

std::vector<Candidate> RandomCandidates(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<Candidate> candidates(size);
  for (size_t i = 0; i < size; ++i) candidates[i] = {static_cast<int32_t>(i), normal(random)};
  return candidates;
}

double ExactGumbel(int32_t token, uint64_t seed, int64_t position) {
  const PhiloxCounter counter = MakeCounter(DrawPurpose::kToken, static_cast<uint32_t>(token),
                                            static_cast<uint64_t>(position));
  return -std::log(-std::log(UniformOpen(Philox4x32(seed, counter)[0])));
}

// Runs `body` on every vector target that the processor has.
template <typename Body>
void ForEachTarget(Body body) {
  const auto targets = hwy::SupportedTargets();
  for (auto rest = targets; rest != 0; rest &= rest - 1) {
    hwy::SetSupportedTargetsForTest(rest & (~rest + 1));
    SCOPED_TRACE(hwy::TargetName(rest & (~rest + 1)));
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(GumbelNoise, IsTheFormulaOnEveryTarget) {
  ForEachTarget([] {
    const std::vector<Candidate> candidates = RandomCandidates(200003, 1);
    std::vector<float> noise(candidates.size());
    for (const uint64_t seed : {uint64_t{0}, uint64_t{0xFEDCBA9876543210}}) {
      for (const int64_t position : {int64_t{0}, int64_t{77}, int64_t{0x1234567890}}) {
        GumbelNoise(candidates, seed, position, noise);
        double worst = 0;
        for (size_t i = 0; i < noise.size(); ++i) {
          const double exact = ExactGumbel(candidates[i].token, seed, position);
          worst = std::max(worst, std::abs(noise[i] - exact) / std::max(1.0, std::abs(exact)));
        }
        EXPECT_LT(worst, 5e-7);
      }
    }
  });
}

TEST(GumbelNoise, ATokenHasTheSameBitsAloneAndInAnyList) {
  ForEachTarget([] {
    std::vector<Candidate> candidates = RandomCandidates(1500, 2);
    std::shuffle(candidates.begin(), candidates.end(), std::mt19937(3));
    std::vector<float> together(candidates.size());
    GumbelNoise(candidates, 5, 9, together);
    for (size_t i = 0; i < candidates.size(); ++i) {
      float alone;
      GumbelNoise({&candidates[i], 1}, 5, 9, {&alone, 1});
      ASSERT_EQ(alone, together[i]);
    }
    for (const size_t size : {2u, 7u, 8u, 9u, 511u, 512u, 513u, 1023u}) {
      std::vector<float> part(size);
      GumbelNoise(std::span(candidates).subspan(3, size), 5, 9, part);
      ASSERT_TRUE(std::equal(part.begin(), part.end(), together.begin() + 3)) << size;
    }
  });
}

TEST(KeyedDraw, IsTheArgmaxOfLogitPlusNoiseWhateverTheOrder) {
  ForEachTarget([] {
    for (const size_t size : {2u, 5u, 40u, 512u, 513u, 3000u}) {
      std::vector<Candidate> candidates = RandomCandidates(size, static_cast<uint32_t>(size));
      std::vector<float> noise(size);
      for (int64_t position = 0; position < 50; ++position) {
        GumbelNoise(candidates, 11, position, noise);
        float best = -std::numeric_limits<float>::infinity();
        int32_t expected = -1;
        for (size_t i = 0; i < size; ++i) {
          const float score = candidates[i].logit + noise[i];
          if (score < best || (score == best && candidates[i].token > expected)) continue;
          best = score;
          expected = candidates[i].token;
        }
        ASSERT_EQ(KeyedDraw(candidates, 11, position), expected);
        std::shuffle(candidates.begin(), candidates.end(),
                     std::mt19937(static_cast<uint32_t>(position)));
        ASSERT_EQ(KeyedDraw(candidates, 11, position), expected);
      }
    }
  });
}

TEST(KeyedDraw, EqualScoresGoToTheLowestId) {
  // At 1e30 the noise is lost in rounding, so all scores are equal.
  std::vector<Candidate> candidates;
  for (int32_t token = 1300; token >= 3; --token) candidates.push_back({token, 1e30f});
  EXPECT_EQ(KeyedDraw(candidates, 1, 1), 3);
}

TEST(KeyedDraw, OneCandidateNeedsNoNoise) {
  const Candidate candidate = {42, -1e30f};
  EXPECT_EQ(KeyedDraw({&candidate, 1}, 1, 1), 42);
}

TEST(KeyedDraw, DependsOnSeedAndPosition) {
  const std::vector<Candidate> candidates(RandomCandidates(1000, 4));
  std::vector<Candidate> flat = candidates;
  for (Candidate& candidate : flat) candidate.logit = 0;
  const int32_t draw = KeyedDraw(flat, 1, 1);
  EXPECT_EQ(KeyedDraw(flat, 1, 1), draw);
  int changed = 0;
  for (int i = 2; i < 12; ++i) {
    changed += KeyedDraw(flat, 1, i) != draw;
    changed += KeyedDraw(flat, static_cast<uint64_t>(i), 1) != draw;
    changed += KeyedDraw(flat, uint64_t{1} | static_cast<uint64_t>(i) << 32, 1) != draw;
  }
  EXPECT_GE(changed, 29);
}

// B05: the distribution is the target's, over positions under one seed and over seeds at one
// position.
TEST(KeyedDraw, B05DistributionIsTheSoftmax) {
  const std::vector<std::vector<double>> tables = {
      {0.97, 0.02, 0.005, 0.003, 0.001, 0.0005, 0.0004, 0.0001},
      {0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125},
      {0.3, 0, 0.25, 0, 0.2, 0.15, 0.1, 0}};
  for (const std::vector<double>& p : tables) {
    const std::vector<Candidate> candidates = CandidatesOf(p);
    std::vector<int64_t> by_position(p.size()), by_seed(p.size());
    for (int64_t i = 0; i < 200000; ++i) {
      ++by_position[KeyedDraw(candidates, 2024, i)];
      ++by_seed[KeyedDraw(candidates, static_cast<uint64_t>(i), 17)];
    }
    EXPECT_GT(ChiSquarePValue(by_position, p), kSmallestPValue);
    EXPECT_GT(ChiSquarePValue(by_seed, p), kSmallestPValue);
  }
}

TEST(KeyedDraw, NeighbouringPositionsAreIndependent) {
  const std::vector<double> p = {0.4, 0.3, 0.2, 0.1};
  const std::vector<Candidate> candidates = CandidatesOf(p);
  std::vector<int64_t> counts(16);
  std::vector<double> joint(16);
  for (size_t i = 0; i < 16; ++i) joint[i] = p[i / 4] * p[i % 4];
  for (int64_t i = 0; i < 100000; ++i) {
    ++counts[KeyedDraw(candidates, 3, 2 * i) * 4 + KeyedDraw(candidates, 3, 2 * i + 1)];
  }
  EXPECT_GT(ChiSquarePValue(counts, joint), kSmallestPValue);
}

TEST(KeyedDraw, TheSameTestFailsWrongDistributions) {
  const std::vector<double> p = {0.4, 0.3, 0.2, 0.1};
  const std::vector<Candidate> wrong = CandidatesOf({0.39, 0.31, 0.2, 0.1});
  std::vector<int64_t> counts(4);
  for (int64_t i = 0; i < 200000; ++i) ++counts[KeyedDraw(wrong, 3, i)];
  EXPECT_LT(ChiSquarePValue(counts, p), kSmallestPValue);
}

TEST(StepUniform, EveryPartOfTheKeyMatters) {
  const double base = StepUniform(1, DrawPurpose::kAcceptance, 2, 3, 4);
  EXPECT_EQ(StepUniform(1, DrawPurpose::kAcceptance, 2, 3, 4), base);
  EXPECT_NE(StepUniform(2, DrawPurpose::kAcceptance, 2, 3, 4), base);
  EXPECT_NE(StepUniform(1, DrawPurpose::kResidual, 2, 3, 4), base);
  EXPECT_NE(StepUniform(1, DrawPurpose::kDraft, 2, 3, 4), base);
  EXPECT_NE(StepUniform(1, DrawPurpose::kAcceptance, 3, 3, 4), base);
  EXPECT_NE(StepUniform(1, DrawPurpose::kAcceptance, 2, 4, 4), base);
  EXPECT_NE(StepUniform(1, DrawPurpose::kAcceptance, 2, 3, 5), base);
}

// Pairs of draws that differ in one part of the key fill the unit square evenly.
TEST(StepUniform, StepsAndPurposesAreIndependent) {
  const auto cell = [](double a, double b) {
    return static_cast<size_t>(a * 8) * 8 + static_cast<size_t>(b * 8);
  };
  std::vector<int64_t> purposes(64), steps(64), lanes(64);
  for (int64_t i = 0; i < 60000; ++i) {
    const double u = StepUniform(9, DrawPurpose::kAcceptance, 0, 0, i);
    ASSERT_GT(u, 0);
    ASSERT_LT(u, 1);
    ++purposes[cell(u, StepUniform(9, DrawPurpose::kResidual, 0, 0, i))];
    ++steps[cell(u, StepUniform(9, DrawPurpose::kAcceptance, 1, 0, i))];
    ++lanes[cell(u, StepUniform(9, DrawPurpose::kAcceptance, 0, 1, i))];
  }
  const std::vector<double> even(64, 1.0 / 64);
  EXPECT_GT(ChiSquarePValue(purposes, even), kSmallestPValue);
  EXPECT_GT(ChiSquarePValue(steps, even), kSmallestPValue);
  EXPECT_GT(ChiSquarePValue(lanes, even), kSmallestPValue);
}

TEST(DrawFrom, InvertsTheCumulativeSum) {
  const TokenDistribution p = {{{5, 0.5}, {2, 0.25}, {9, 0.25}}};
  EXPECT_EQ(DrawFrom(p, 0.0001), 5);
  EXPECT_EQ(DrawFrom(p, 0.4999), 5);
  EXPECT_EQ(DrawFrom(p, 0.5), 2);
  EXPECT_EQ(DrawFrom(p, 0.75), 9);
  EXPECT_EQ(DrawFrom(p, 1 - 1e-16), 9);
}

TEST(ChiSquareTail, MatchesPublishedQuantiles) {
  EXPECT_NEAR(ChiSquareTail(3.841459, 1), 0.05, 1e-6);
  EXPECT_NEAR(ChiSquareTail(18.307038, 10), 0.05, 1e-6);
  EXPECT_NEAR(ChiSquareTail(2.558212, 10), 0.99, 1e-6);
  EXPECT_NEAR(ChiSquareTail(149.449253, 100), 0.001, 1e-6);
}

}  // namespace
}  // namespace tahmin
