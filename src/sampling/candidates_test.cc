#include "sampling/candidates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "sampling/filters.h"

namespace tahmin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SamplingOptions NoFilters() {
  SamplingOptions options;
  options.temperature = 1;
  options.top_k = 0;
  options.top_p = 1;
  options.min_p = 0;
  return options;
}

std::vector<int32_t> Ids(std::span<const Candidate> candidates) {
  std::vector<int32_t> ids;
  for (const Candidate& candidate : candidates) ids.push_back(candidate.token);
  return ids;
}

std::vector<int32_t> Survivors(const SamplingOptions& options, const std::vector<float>& logits,
                               const std::vector<int32_t>& history = {}) {
  CandidateBuilder builder(options);
  const auto result = builder.Build(logits, history, static_cast<int32_t>(logits.size()));
  return result.ok() ? Ids(*result) : std::vector<int32_t>{-1};
}

std::vector<float> RandomLogits(size_t size, uint32_t seed, float scale) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

// Plain and slow: a full sort, then every filter by its definition.
std::vector<int32_t> ReferenceSurvivors(const SamplingOptions& options,
                                        const std::vector<float>& logits) {
  std::vector<Candidate> all;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > -kInf) all.push_back({static_cast<int32_t>(i), logits[i]});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
  if (options.top_k > 0) all.resize(std::min<size_t>(all.size(), options.top_k));
  const double max = all[0].logit;
  double total = 0, cumulative = 0;
  for (const Candidate& candidate : all) total += std::exp(candidate.logit - max);
  size_t kept = 0;
  while (kept < all.size() && cumulative / total < options.top_p) {
    cumulative += std::exp(all[kept++].logit - max);
  }
  all.resize(kept);
  while (options.min_p > 0 && std::exp(all.back().logit - max) < options.min_p) all.pop_back();
  return Ids(all);
}

// Probabilities 0.40 0.25 0.15 0.10 0.06 0.04 in shuffled ids: tokens 3 1 5 0 4 2.
const std::vector<float> kTable = {std::log(0.10f), std::log(0.25f), std::log(0.04f),
                                   std::log(0.40f), std::log(0.06f), std::log(0.15f)};

struct FilterCase {
  const char* name;
  int32_t top_k;
  float top_p, min_p, temperature;
  std::vector<int32_t> survivors;
};

TEST(CandidateBuilder, B17FilterOrderTable) {
  const FilterCase cases[] = {
      {"top-k alone", 4, 1.0f, 0.0f, 1.0f, {3, 1, 5, 0}},
      // 0.40 + 0.25 = 0.65 < 0.7 <= 0.80.
      {"top-p alone", 0, 0.70f, 0.0f, 1.0f, {3, 1, 5}},
      // 0.40 alone reaches 0.3: at least one survives.
      {"top-p below the best", 0, 0.30f, 0.0f, 1.0f, {3}},
      // 0.3 x 0.40 = 0.12.
      {"min-p alone", 0, 1.0f, 0.30f, 1.0f, {3, 1, 5}},
      // Top-k first: 0.40 / 0.80 = 0.5, + 0.3125 = 0.8125 >= 0.8: two. Top-p first would keep
      // three.
      {"top-k before top-p", 3, 0.80f, 0.0f, 1.0f, {3, 1}},
      // Top-p 0.9 keeps 0.40 0.25 0.15 0.10 (0.90 > 0.89); min-p 0.2 then asks for 0.08.
      {"top-p before min-p", 0, 0.89f, 0.20f, 1.0f, {3, 1, 5, 0}},
      // Min-p first would leave three, renormalised 0.5 0.3125 0.1875, of which top-p 0.79 keeps
      // two.
      {"top-p on all, then min-p", 0, 0.79f, 0.30f, 1.0f, {3, 1, 5}},
      // At temperature 10 the six would be nearly even and top-p 0.7 would keep five of them.
      {"filters see probabilities before a high temperature", 0, 0.70f, 0.0f, 10.0f, {3, 1, 5}},
      // At temperature 0.1 the best would have 0.99 and top-p 0.7, min-p 0.3 would keep it alone.
      {"filters see probabilities before a low temperature", 0, 0.70f, 0.30f, 0.1f, {3, 1, 5}},
      {"all of them", 5, 0.90f, 0.20f, 0.7f, {3, 1, 5, 0}},
      {"temperature 0 wins over all filters", 5, 0.90f, 0.20f, 0.0f, {3}},
  };
  for (const FilterCase& row : cases) {
    SamplingOptions options = NoFilters();
    options.top_k = row.top_k;
    options.top_p = row.top_p;
    options.min_p = row.min_p;
    options.temperature = row.temperature;
    EXPECT_EQ(Survivors(options, kTable), row.survivors) << row.name;
  }
}

TEST(CandidateBuilder, PenaltiesComeBeforeTheFilters) {
  SamplingOptions options = NoFilters();
  options.top_k = 2;
  options.presence_penalty = 5;
  EXPECT_THAT(Survivors(options, kTable, {3}), ElementsAre(1, 5));
  options.temperature = 0;
  EXPECT_THAT(Survivors(options, kTable, {3}), ElementsAre(1));
}

TEST(CandidateBuilder, PenaltyDefinitions) {
  std::vector<float> logits = {2.0f, -2.0f, 0.0f, 1.0f};
  SamplingOptions options;
  options.repeat_penalty = 2.0f;
  options.frequency_penalty = 0.25f;
  options.presence_penalty = 0.5f;
  options.penalty_window = -1;
  options.logit_bias = {{3, 3.0f}, {3, -1.0f}};
  std::vector<std::pair<int32_t, int32_t>> counts;
  const std::vector<int32_t> history = {0, 1, 0, 2, 0, 7};  // 7: outside the vocabulary
  ApplyBiasAndPenalties(options, history, counts, logits);
  // 2/2 - 3*0.25 - 0.5; -2*2 - 0.25 - 0.5; 0 - 0.25 - 0.5; 1 + 3 - 1 and not in the history.
  EXPECT_THAT(logits, ElementsAre(-0.25f, -4.75f, -0.75f, 3.0f));
}

TEST(CandidateBuilder, BiasComesBeforePenalties) {
  std::vector<float> logits = {-1.0f};
  SamplingOptions options;
  options.repeat_penalty = 2.0f;
  options.logit_bias = {{0, 5.0f}};
  std::vector<std::pair<int32_t, int32_t>> counts;
  ApplyBiasAndPenalties(options, std::vector<int32_t>{0}, counts, logits);
  EXPECT_EQ(logits[0], 2.0f);  // (-1 + 5) / 2, not -2 + 5
}

TEST(CandidateBuilder, B15PenaltyWindowIsTheTailOfTheWholeHistoryPromptIncluded) {
  SamplingOptions options = NoFilters();
  options.temperature = 0;
  options.presence_penalty = 10;
  const std::vector<float> logits = {3, 2, 1};
  const std::vector<int32_t> history = {0, 1, 2, 2};  // as a prompt of 4 tokens
  options.penalty_window = 0;                         // off
  EXPECT_THAT(Survivors(options, logits, history), ElementsAre(0));
  options.penalty_window = 2;  // 2 2
  EXPECT_THAT(Survivors(options, logits, history), ElementsAre(0));
  options.penalty_window = 4;  // all four: equal penalties
  EXPECT_THAT(Survivors(options, logits, history), ElementsAre(0));
  EXPECT_THAT(Survivors(options, logits, {0, 2, 2, 2}), ElementsAre(1));
  options.penalty_window = 3;
  EXPECT_THAT(Survivors(options, logits, {0, 2, 2, 2}), ElementsAre(0));
  options.penalty_window = -1;
  EXPECT_THAT(Survivors(options, logits, {0, 2, 2, 2}), ElementsAre(1));
  options.penalty_window = 64;  // longer than the history
  EXPECT_THAT(Survivors(options, logits, {0, 2, 2, 2}), ElementsAre(1));
}

TEST(CandidateBuilder, TiesGoToTheLowestIdInEveryFilter) {
  const std::vector<float> logits(200, 1.5f);
  SamplingOptions options = NoFilters();
  options.top_k = 3;
  EXPECT_THAT(Survivors(options, logits), ElementsAre(0, 1, 2));
  options = NoFilters();
  options.top_p = 0.015625f;  // of 200 equal ones: 3.125, so four
  EXPECT_THAT(Survivors(options, logits), ElementsAre(0, 1, 2, 3));
  options = NoFilters();
  options.temperature = 0;
  EXPECT_THAT(Survivors(options, logits), ElementsAre(0));
}

TEST(CandidateBuilder, AgreesWithAFullSortOnLargeVocabularies) {
  // Coarse logits make many ties; sizes around the scan block; ks around the number of blocks.
  for (const size_t size : {1u, 63u, 64u, 65u, 1000u, 20011u}) {
    for (const float scale : {0.01f, 1.0f, 5.0f}) {
      std::vector<float> logits = RandomLogits(size, static_cast<uint32_t>(size), scale);
      for (float& logit : logits) logit = std::round(logit * 64) / 64;
      for (size_t i = 1; i < size; i += 7) logits[i] = -kInf;
      for (const int32_t k : {0, 1, 15, 16, 17, 40, 400, 100000}) {
        for (const float p : {0.3f, 0.95f, 1.0f}) {
          SamplingOptions options = NoFilters();
          options.top_k = k;
          options.top_p = p;
          options.min_p = 0.01f;
          ASSERT_EQ(Survivors(options, logits), ReferenceSurvivors(options, logits))
              << size << " " << scale << " " << k << " " << p;
        }
      }
    }
  }
}

TEST(RankFrom, RadixSortEqualsTheComparison) {
  std::vector<Candidate> candidates;
  const std::vector<float> logits = RandomLogits(30000, 8, 100);
  for (int32_t i = 0; i < 30000; ++i) {
    const float logit = i % 3 == 0 ? std::round(logits[i]) : logits[i] * 1e-3f;
    candidates.push_back({i, i % 50 == 0 ? (i % 100 == 0 ? 0.0f : -0.0f) : logit});
  }
  std::vector<Candidate> expected = candidates;
  std::sort(expected.begin() + 1000, expected.end(), RanksBefore);
  RankFrom(1000, candidates);
  EXPECT_EQ(Ids(candidates), Ids(expected));
}

TEST(CandidateBuilder, NoFilterKeepsAllInIdOrder) {
  EXPECT_THAT(Survivors(NoFilters(), {1, -kInf, 3, 2}), ElementsAre(0, 2, 3));
}

TEST(CandidateBuilder, TemperatureDividesTheDistanceFromTheLargest) {
  SamplingOptions options = NoFilters();
  options.temperature = 0.5f;
  CandidateBuilder builder(options);
  const auto result = builder.Build(std::vector<float>{10, 12, 11}, {}, 3);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ((*result)[0].logit, -4);
  EXPECT_EQ((*result)[1].logit, 0);
  EXPECT_EQ((*result)[2].logit, -2);
}

TEST(CandidateBuilder, TinyTemperatureIsGreedyAndFinite) {
  SamplingOptions options = NoFilters();
  options.temperature = 1e-44f;
  EXPECT_THAT(Survivors(options, {10, 12, 11, 12}), ElementsAre(1, 3));
}

TEST(CandidateBuilder, BannedAndPaddingTokensNeverSurvive) {
  SamplingOptions options = NoFilters();
  options.logit_bias = {{2, -kInf}};
  CandidateBuilder builder(options);
  const std::vector<float> logits = {0, 1, 9, 2, 50, kNan};
  for (const float temperature : {0.0f, 1.0f}) {
    options.temperature = temperature;
    CandidateBuilder strict(options);
    const auto result = strict.Build(logits, {}, 4);
    ASSERT_TRUE(result.ok());
    for (const Candidate& candidate : *result) {
      EXPECT_NE(candidate.token, 2);
      EXPECT_LT(candidate.token, 4);
    }
  }
}

TEST(CandidateBuilder, NanAndInfinityAndNothingLeftAreInternalErrors) {
  for (const size_t place : {0u, 70u, 129u}) {
    for (const float value : {kNan, -kNan, kInf}) {
      std::vector<float> logits(130, 1.0f);
      logits[place] = value;
      for (const float temperature : {0.0f, 0.8f}) {
        SamplingOptions options;
        options.temperature = temperature;
        CandidateBuilder builder(options);
        const auto result = builder.Build(logits, {}, 130);
        ASSERT_EQ(result.status().code(), absl::StatusCode::kInternal);
        EXPECT_THAT(std::string(result.status().message()), HasSubstr(std::to_string(place)));
      }
    }
  }
  CandidateBuilder builder{SamplingOptions()};
  EXPECT_EQ(builder.Build(std::vector<float>(5, -kInf), {}, 5).status().code(),
            absl::StatusCode::kInternal);
  EXPECT_TRUE(builder.Build(std::vector<float>(5, 0.0f), {}, 5).ok());  // usable after an error
}

TEST(CandidateBuilder, HugePenaltiesStayFinite) {
  SamplingOptions options = NoFilters();
  options.repeat_penalty = 1e-38f;
  options.frequency_penalty = -3e38f;
  EXPECT_THAT(Survivors(options, {100, 1, -kInf}, {0, 0, 2}), ElementsAre(0, 1));
}

TEST(ValidateSamplingOptions, NamesTheField) {
  EXPECT_TRUE(ValidateSamplingOptions(SamplingOptions(), 10).ok());
  const auto expect_error = [](const char* field, auto change) {
    SamplingOptions options;
    change(options);
    const absl::Status status = ValidateSamplingOptions(options, 10);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field;
    EXPECT_THAT(std::string(status.message()), HasSubstr(field));
  };
  for (const float value : {-0.1f, kNan, kInf}) {
    expect_error("temperature", [&](SamplingOptions& o) { o.temperature = value; });
  }
  expect_error("top_k", [](SamplingOptions& o) { o.top_k = -1; });
  for (const float value : {0.0f, 1.01f, kNan}) {
    expect_error("top_p", [&](SamplingOptions& o) { o.top_p = value; });
  }
  for (const float value : {-0.1f, 1.0f, kNan}) {
    expect_error("min_p", [&](SamplingOptions& o) { o.min_p = value; });
  }
  for (const float value : {0.0f, -1.0f, kInf, kNan}) {
    expect_error("repeat_penalty", [&](SamplingOptions& o) { o.repeat_penalty = value; });
  }
  expect_error("frequency_penalty", [](SamplingOptions& o) { o.frequency_penalty = kNan; });
  expect_error("presence_penalty", [](SamplingOptions& o) { o.presence_penalty = -kInf; });
  expect_error("penalty_window", [](SamplingOptions& o) { o.penalty_window = -2; });
  expect_error("logit_bias", [](SamplingOptions& o) { o.logit_bias = {{10, 1.0f}}; });
  expect_error("logit_bias", [](SamplingOptions& o) { o.logit_bias = {{-1, 1.0f}}; });
  expect_error("logit_bias", [](SamplingOptions& o) { o.logit_bias = {{1, kNan}}; });
  expect_error("logit_bias", [](SamplingOptions& o) { o.logit_bias = {{1, kInf}}; });
}

TEST(ToDistribution, IsTheSoftmaxSortedAndNormalised) {
  const std::vector<Candidate> candidates = {
      {4, std::log(1.0f)}, {7, std::log(4.0f)}, {2, std::log(1.0f)}, {9, -2000.0f}};
  const TokenDistribution p = ToDistribution(candidates);
  ASSERT_EQ(p.entries.size(), 3u);  // e^-2000 is 0 and has no entry
  EXPECT_EQ(p.entries[0].token, 7);
  EXPECT_EQ(p.entries[1].token, 2);
  EXPECT_EQ(p.entries[2].token, 4);
  EXPECT_NEAR(p.entries[0].probability, 4.0 / 6, 1e-7);
  EXPECT_NEAR(p.entries[1].probability, 1.0 / 6, 1e-7);
  EXPECT_EQ(p.ProbabilityOf(9), 0);
}

}  // namespace
}  // namespace tahmin
