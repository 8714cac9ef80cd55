#include "accept/rejection_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace tahmin {
namespace {

TokenDistribution FromTable(const std::vector<double>& table) {
  TokenDistribution distribution;
  for (size_t i = 0; i < table.size(); ++i) {
    if (table[i] > 0) distribution.entries.push_back({static_cast<int32_t>(i), table[i]});
  }
  std::stable_sort(distribution.entries.begin(), distribution.entries.end(),
                   [](const TokenProbability& a, const TokenProbability& b) {
                     return a.probability > b.probability;
                   });
  return distribution;
}

// What a decoding step does with one draft token, as probabilities. The checks below take any rule.
struct Rule {
  // The distribution that the draft token really comes from, and the q that is recorded with it
  // (empty: a point mass on the token).
  std::function<TokenDistribution(const TokenDistribution& q)> draft_law;
  std::function<TokenDistribution(const TokenDistribution& q)> recorded_q;
  // The draft token is accepted and the walk goes on.
  std::function<double(const TokenDistribution& p, const TokenDistribution& q, int32_t token)>
      accept;
  // The last token of the step, where the draft token was not accepted.
  std::function<TokenDistribution(const TokenDistribution& p, const TokenDistribution& q,
                                  int32_t token)>
      last;
};

TokenDistribution Same(const TokenDistribution& q) { return q; }
TokenDistribution Argmax(const TokenDistribution& q) { return {{{q.entries[0].token, 1.0}}}; }
TokenDistribution PointMass(const TokenDistribution&) { return {}; }

const Rule kSampledDraft = {Same, Same, AcceptanceProbability, ResidualDistribution};
const Rule kArgmaxDraft = {Argmax, PointMass, AcceptanceProbability, ResidualDistribution};
const Rule kSampledButPointMassRecorded = {Same, PointMass, AcceptanceProbability,
                                           ResidualDistribution};  // sample and match: lossless too

// Planted wrong rules.
TokenDistribution FromP(const TokenDistribution& p, const TokenDistribution&, int32_t) { return p; }
const Rule kResampledFromP = {Same, Same, AcceptanceProbability, FromP};
// Draw y ~ p and compare with the draft; the draw that did not match is thrown away and made anew.
const Rule kRedrawAfterMatch = {Same, PointMass, AcceptanceProbability, FromP};
const Rule kOneHotRecordedAsSoftmax = {Argmax, Same, AcceptanceProbability, ResidualDistribution};

constexpr size_t kVocab = 4;

// Distributions that depend on the last token, so that a chain's rows differ.
struct Tables {
  std::string name;
  std::vector<std::vector<double>> p, q;
  const std::vector<double>& P(const std::vector<int32_t>& prefix) const {
    return p[prefix.empty() ? 0 : prefix.back() % p.size()];
  }
  const std::vector<double>& Q(const std::vector<int32_t>& prefix) const {
    return q[prefix.empty() ? 0 : prefix.back() % q.size()];
  }
};

const std::vector<Tables> kTables = {
    {"sharp",
     {{0.97, 0.01, 0.015, 0.005}, {0.001, 0.998, 0.0005, 0.0005}},
     {{0.9, 0.05, 0.03, 0.02}, {0.3, 0.6, 0.05, 0.05}}},
    {"flat",
     {{0.25, 0.25, 0.25, 0.25}, {0.2, 0.3, 0.26, 0.24}},
     {{0.25, 0.25, 0.25, 0.25}, {0.3, 0.2, 0.25, 0.25}}},
    {"disjoint", {{0.6, 0.4, 0, 0}, {0, 0, 0.5, 0.5}}, {{0, 0, 0.7, 0.3}, {0.1, 0.9, 0, 0}}},
    {"overlapping",
     {{0.5, 0.5, 0, 0}, {0.1, 0.2, 0.3, 0.4}},
     {{0, 0.5, 0.5, 0}, {0.4, 0.3, 0.3, 0}}},
};

size_t IndexOf(const std::vector<int32_t>& sequence) {
  size_t index = 0;
  for (const int32_t token : sequence) index = index * kVocab + static_cast<size_t>(token);
  return index;
}

// Adds `weight` times the law of plain decoding, from `prefix` up to `length` tokens.
void AddPlain(const Tables& tables, std::vector<int32_t> prefix, size_t length, double weight,
              std::vector<double>& law) {
  if (weight == 0) return;
  if (prefix.size() == length) {
    law[IndexOf(prefix)] += weight;
    return;
  }
  const std::vector<double>& p = tables.P(prefix);
  for (size_t token = 0; token < kVocab; ++token) {
    std::vector<int32_t> next = prefix;
    next.push_back(static_cast<int32_t>(token));
    AddPlain(tables, next, length, weight * p[token], law);
  }
}

// Adds the law of one speculative step with `num_left` draft tokens; what a step leaves open up to
// `length` is then decoded plainly.
void AddStep(const Rule& rule, const Tables& tables, const std::vector<int32_t>& prefix,
             size_t num_left, size_t length, double weight, std::vector<double>& law) {
  if (weight == 0) return;
  if (num_left == 0) return AddPlain(tables, prefix, length, weight, law);  // bonus token ~ p
  const TokenDistribution p = FromTable(tables.P(prefix));
  const TokenDistribution q = FromTable(tables.Q(prefix));
  const TokenDistribution recorded = rule.recorded_q(q);
  for (const TokenProbability& draft : rule.draft_law(q).entries) {
    const double accept = rule.accept(p, recorded, draft.token);
    std::vector<int32_t> next = prefix;
    next.push_back(draft.token);
    AddStep(rule, tables, next, num_left - 1, length, weight * draft.probability * accept, law);
    const TokenDistribution last = rule.last(p, recorded, draft.token);
    for (const TokenProbability& entry : last.entries) {
      next.back() = entry.token;
      AddPlain(tables, next, length, weight * draft.probability * (1 - accept) * entry.probability,
               law);
    }
  }
}

// Largest difference between the law of the emitted sequence (draft tokens + 1) and plain
// decoding's.
double EmissionError(const Rule& rule, const Tables& tables, size_t num_draft) {
  const size_t length = num_draft + 1;
  const auto num_sequences = static_cast<size_t>(std::pow(kVocab, length));
  std::vector<double> plain(num_sequences), emitted(num_sequences);
  AddPlain(tables, {}, length, 1.0, plain);
  AddStep(rule, tables, {}, num_draft, length, 1.0, emitted);
  double error = 0;
  for (size_t i = 0; i < num_sequences; ++i) {
    error = std::max(error, std::abs(plain[i] - emitted[i]));
  }
  return error;
}

// The check itself: chains of 1, 2 and 3 over all tables.
double WorstError(const Rule& rule) {
  double worst = 0;
  for (const Tables& tables : kTables) {
    for (const size_t num_draft : {1u, 2u, 3u}) {
      worst = std::max(worst, EmissionError(rule, tables, num_draft));
    }
  }
  return worst;
}

constexpr double kExact = 1e-12;

TEST(RejectionMath, B05EmitsExactlyPByEnumeration) {
  EXPECT_LT(WorstError(kSampledDraft), kExact);
  EXPECT_LT(WorstError(kArgmaxDraft), kExact);
  EXPECT_LT(WorstError(kSampledButPointMassRecorded), kExact);
}

TEST(RejectionMath, B05TheSameCheckFailsWhenRejectionsComeFromP) {
  EXPECT_GT(WorstError(kResampledFromP), 0.01);
  // With disjoint p and q this mistake does not show: it is the other tables that catch it.
  EXPECT_LT(EmissionError(kResampledFromP, kTables[2], 1), kExact);
  EXPECT_GT(EmissionError(kResampledFromP, kTables[0], 1), 0.001);
}

TEST(RejectionMath, B05TheSameCheckFailsWhenTheDrawIsRepeatedAfterAMatchTest) {
  for (const size_t num_draft : {1u, 2u, 3u}) {
    EXPECT_GT(EmissionError(kRedrawAfterMatch, kTables[0], num_draft), 0.01);
  }
  // p(c) becomes p(c) + (1 - p(c)) p(c) for a fixed c: 0.25 turns into 0.4375.
  const Rule fixed_draft = {Argmax, PointMass, AcceptanceProbability, FromP};
  EXPECT_NEAR(EmissionError(fixed_draft, kTables[1], 1), 0.0625 * 0.75, 0.02);
}

TEST(RejectionMath, B05TheSameCheckFailsWhenAOneHotDraftIsRecordedAsSoftmax) {
  EXPECT_GT(WorstError(kOneHotRecordedAsSoftmax), 0.01);
  for (const size_t table : {0u, 1u, 3u}) {
    EXPECT_GT(EmissionError(kOneHotRecordedAsSoftmax, kTables[table], 2), 0.005)
        << kTables[table].name;
  }
}

TEST(RejectionMath, AcceptanceIsTheRatioCappedAtOne) {
  const TokenDistribution p = FromTable({0.5, 0.3, 0.2, 0});
  const TokenDistribution q = FromTable({0.25, 0.6, 0, 0.15});
  EXPECT_EQ(AcceptanceProbability(p, q, 0), 1);
  EXPECT_EQ(AcceptanceProbability(p, q, 1), 0.5);
  EXPECT_EQ(AcceptanceProbability(p, q, 3), 0);
  EXPECT_EQ(AcceptanceProbability(p, {}, 1), 0.3);
  EXPECT_EQ(AcceptanceProbability(p, {}, 3), 0);
}

TEST(RejectionMath, TotalAcceptanceIsOneMinusTotalVariation) {
  for (const Tables& tables : kTables) {
    const TokenDistribution p = FromTable(tables.p[1]);
    const TokenDistribution q = FromTable(tables.q[1]);
    double accepted = 0, overlap = 0;
    for (const TokenProbability& draft : q.entries) {
      accepted += draft.probability * AcceptanceProbability(p, q, draft.token);
      overlap += std::min(draft.probability, p.ProbabilityOf(draft.token));
    }
    EXPECT_NEAR(accepted, overlap, kExact) << tables.name;
  }
}

TEST(RejectionMath, ResidualIsSortedAndNormalised) {
  const TokenDistribution p = FromTable({0.5, 0.2, 0.2, 0.1});
  const TokenDistribution q = FromTable({0.7, 0.1, 0.1, 0.1});
  const TokenDistribution residual = ResidualDistribution(p, q, 0);
  ASSERT_EQ(residual.entries.size(), 2u);
  EXPECT_EQ(residual.entries[0].token, 1);
  EXPECT_EQ(residual.entries[1].token, 2);
  EXPECT_EQ(residual.entries[0].probability, 0.5);
  const TokenDistribution without = ResidualDistribution(p, {}, 0);
  ASSERT_EQ(without.entries.size(), 3u);
  EXPECT_NEAR(without.ProbabilityOf(1), 0.4, kExact);
  EXPECT_NEAR(without.ProbabilityOf(3), 0.2, kExact);
}

TEST(RejectionMath, EqualDistributionsFallBackToP) {
  const TokenDistribution p = FromTable({0.5, 0.3, 0.2, 0});
  const TokenDistribution residual = ResidualDistribution(p, p, 1);
  ASSERT_EQ(residual.entries.size(), 3u);
  EXPECT_EQ(residual.ProbabilityOf(1), 0.3);
  const TokenDistribution certain = FromTable({0, 1, 0, 0});
  EXPECT_EQ(ResidualDistribution(certain, {}, 1).ProbabilityOf(1), 1);
}

}  // namespace
}  // namespace tahmin
