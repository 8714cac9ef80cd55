// The approximate output heads of draft models: which tokens get logits, and that those are right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/each_target_test.h"
#include "model/coarse_head.h"
#include "model/frequent_head.h"
#include "model/model_fixture.h"

namespace tahmin {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int32_t kVocabSize = 320;

TinyModelOptions HeadModel() {
  TinyModelOptions options;
  options.tied_embedding = false;
  return options;
}

absl::StatusOr<std::unique_ptr<Model>> LoadApproximate(const std::vector<uint8_t>& bytes,
                                                       const WeightApproximation& approximation) {
  ThreadPool pool(2);
  absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Parse(bytes, "tiny");
  EXPECT_TRUE(file.ok());
  const absl::StatusOr<size_t> planned = Model::PlannedWeightBytes(**file, approximation);
  auto model = Model::Load(*std::move(file), {.approximation = approximation}, pool);
  EXPECT_EQ(planned.status(), model.status());
  if (model.ok()) {
    EXPECT_GE(*planned, (*model)->weight_figures().packed_bytes);
  }
  return model;
}

class HeadRun {
 public:
  HeadRun(const std::vector<uint8_t>& bytes, const WeightApproximation& approximation)
      : model_(*LoadApproximate(bytes, approximation)), driver_(*model_) {}

  void Offer(std::span<const int32_t> tokens) {
    ASSERT_TRUE(model_->OfferTokens(tokens, driver_.scratch(), driver_.pool()).ok());
  }
  // Logits behind every token, [tokens, vocab_size].
  std::vector<float> Logits(std::span<const int32_t> tokens) {
    return driver_.FeedChain(driver_.AddSequence(), tokens, 4);
  }

 private:
  std::unique_ptr<Model> model_;
  ModelDriver driver_;
};

int64_t NumFinite(std::span<const float> logits) {
  return std::count_if(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); });
}

TEST(FrequentHead, HoldsTheLowestIdsTheSpecialOnesAndTheSequencesOwn) {
  const std::vector<uint8_t> bytes = TinyModelBytes(HeadModel());
  HeadRun exact(bytes, {});
  HeadRun cut(bytes, {.head = DraftHead::kFrequent, .head_tokens = 40});
  const Tokens tokens = RandomTokens(9, 300, 3);
  const std::vector<float> all = exact.Logits(tokens);

  const std::unique_ptr<GgufFile> file = *GgufFile::Parse(bytes, "tiny");
  const std::vector<int32_t> kept = FrequentTokens(*file, 40, kVocabSize);
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
  EXPECT_EQ(kept[39], 39);
  const std::vector<float> before = cut.Logits(tokens);
  const Tokens own = {290, 313, 290, 7, -5, kVocabSize, 1 << 30};  // ids of nobody are ignored
  cut.Offer(own);
  cut.Offer(Tokens{301});
  const std::vector<float> after = cut.Logits(tokens);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto token = static_cast<int32_t>(i % kVocabSize);
    const bool is_kept = std::binary_search(kept.begin(), kept.end(), token);
    const bool is_own = token == 290 || token == 313 || token == 301;
    EXPECT_EQ(before[i], is_kept ? all[i] : -kInfinity) << token;
    EXPECT_EQ(after[i], is_kept || is_own ? all[i] : -kInfinity) << token;
  }
}

TEST(FrequentHead, AnyNumberOfTokensFromOneToMoreThanThereAre) {
  const std::vector<uint8_t> bytes = TinyModelBytes(HeadModel());
  const Tokens tokens = RandomTokens(3, 300, 4);
  const std::vector<float> all = HeadRun(bytes, {}).Logits(tokens);
  for (const int32_t count : {kVocabSize, kVocabSize + 1, std::numeric_limits<int32_t>::max(), 0}) {
    HeadRun whole(bytes, {.head = DraftHead::kFrequent, .head_tokens = count});
    EXPECT_TRUE(SameBits(whole.Logits(tokens), all)) << count;
  }
  HeadRun one(bytes, {.head = DraftHead::kFrequent, .head_tokens = 1});
  const std::vector<float> logits = one.Logits(tokens);
  EXPECT_EQ(logits[0], all[0]);
  EXPECT_LT(NumFinite(logits), 3 * kVocabSize);
}

class TwoBitRowsOnTarget : public kernels::EachTargetTest {};

INSTANTIATE_TEST_SUITE_P(Targets, TwoBitRowsOnTarget, kernels::EachTarget(),
                         kernels::TargetChoiceName);

// A unit vector as the input shows one column.
TEST_P(TwoBitRowsOnTarget, ColumnsStandForTheNearestLevelsOnTheFittedScale) {
  ThreadPool pool(1);
  for (const int32_t columns : {1, 31, 128, 333, 896}) {
    std::vector<float> row;
    for (const int32_t value : RandomTokens(columns, 401, 9)) row.push_back(0.01f * (value - 200));
    double squares = 0, products = 0, level_squares = 0;
    for (const float value : row) squares += double{value} * value;
    std::vector<double> levels;
    for (const float value : row) {
      const double magnitude = std::abs(value) > std::sqrt(squares / columns) ? 3 : 1;
      levels.push_back(value < 0 ? -magnitude : magnitude);
      products += value * levels.back();
      level_squares += magnitude * magnitude;
    }
    TwoBitRows matrix = *TwoBitRows::Create(1, columns);
    matrix.SetRow(0, row);
    TwoBitRows::Input input = matrix.MakeInput();
    for (int32_t column = 0; column < columns; ++column) {
      std::vector<float> unit(static_cast<size_t>(columns));
      unit[static_cast<size_t>(column)] = 1;
      matrix.Quantize(unit, input);
      float shown = 0;
      matrix.Multiply(input, &shown, pool);
      EXPECT_NEAR(shown, levels[static_cast<size_t>(column)] * products / level_squares, 1e-5)
          << column << " of " << columns;
    }
  }
}

TEST(CoarseHead, CandidatesGetTheirExactLogitsAndAllOthersNone) {
  const std::vector<uint8_t> bytes = TinyModelBytes(HeadModel());
  const Tokens tokens = RandomTokens(40, 300, 5);
  const std::vector<float> all = HeadRun(bytes, {}).Logits(tokens);
  for (const int32_t count : {1, 20, kVocabSize, std::numeric_limits<int32_t>::max()}) {
    HeadRun coarse(bytes, {.head = DraftHead::kCoarse, .head_tokens = count});
    const std::vector<float> logits = coarse.Logits(tokens);
    EXPECT_EQ(NumFinite(logits), 40 * std::min(count, kVocabSize));
    for (size_t i = 0; i < logits.size(); ++i) {
      if (logits[i] == -kInfinity) continue;
      // The exact head rounds its input to 8 bits, the fine pass does not.
      EXPECT_NEAR(logits[i], all[i], 0.15f);
    }
  }
}

TEST(CoarseHead, TheBestTokenIsNearlyAlwaysACandidate) {
  const std::vector<uint8_t> bytes = TinyModelBytes(HeadModel());
  const Tokens tokens = RandomTokens(120, 300, 6);
  const std::vector<float> all = HeadRun(bytes, {}).Logits(tokens);
  HeadRun coarse(bytes, {.head = DraftHead::kCoarse, .head_tokens = 48});
  const std::vector<float> logits = coarse.Logits(tokens);
  int num_found = 0;
  for (size_t row = 0; row < tokens.size(); ++row) {
    const auto begin = all.begin() + static_cast<int64_t>(row) * kVocabSize;
    const auto best = std::max_element(begin, begin + kVocabSize) - all.begin();
    num_found += std::isfinite(logits[static_cast<size_t>(best)]) ? 1 : 0;
  }
  // Candidates picked blindly would hold 18 of 120.
  EXPECT_GE(num_found, 117);
}

TEST(CoarseHead, PickLargestIsSortingEvenWithTiesAndNans) {
  CoarseScratch scratch;
  for (const int32_t size : {1, 63, 64, 65, 1000, 5000}) {
    std::vector<float> row;
    for (const int32_t value : RandomTokens(size, 400, 8)) row.push_back(0.5f * (value - 200));
    for (const int32_t count : {1, 7, 64, size}) {
      PickLargest(row, count, scratch);
      std::vector<int32_t> expected(static_cast<size_t>(size));
      for (int32_t i = 0; i < size; ++i) expected[i] = i;
      std::stable_sort(expected.begin(), expected.end(),
                       [&](int32_t a, int32_t b) { return row[a] > row[b]; });
      expected.resize(static_cast<size_t>(std::min(size, count)));
      EXPECT_THAT(scratch.candidates, testing::UnorderedElementsAreArray(expected));
    }
  }
  std::vector<float> broken(200, std::numeric_limits<float>::quiet_NaN());
  PickLargest(broken, 5, scratch);
  EXPECT_TRUE(scratch.candidates.empty());
  broken[150] = 1.0f;
  PickLargest(broken, 5, scratch);
  EXPECT_EQ(scratch.candidates, Tokens{150});
}

TEST(TwoBitRows, ProductsAreThoseOfTheCodesAndCloseToTheExactOnes) {
  ThreadPool pool(2);
  for (const int64_t columns : {1, 8, 127, 128, 896, 1000}) {
    const int64_t rows = 300;
    const auto random = [&](int64_t size, uint64_t seed) {
      std::vector<float> values;
      for (const int32_t value : RandomTokens(static_cast<int32_t>(size), 2001, seed)) {
        values.push_back(1e-3f * static_cast<float>(value - 1000));
      }
      return values;
    };
    const std::vector<float> weights = random(rows * columns, 1), x = random(columns, 2);
    TwoBitRows matrix = *TwoBitRows::Create(rows, columns);
    for (int64_t row = 0; row < rows; ++row) {
      matrix.SetRow(row, {weights.data() + row * columns, static_cast<size_t>(columns)});
    }
    TwoBitRows::Input input = matrix.MakeInput();
    matrix.Quantize(x, input);
    std::vector<float> out(rows);
    matrix.Multiply(input, out.data(), pool);
    double error = 0, squares = 0;
    for (int64_t row = 0; row < rows; ++row) {
      double exact = 0, norm = 0;
      for (int64_t k = 0; k < columns; ++k) {
        exact += double{weights[row * columns + k]} * x[k];
        norm += double{x[k]} * x[k] / 3;  // the variance of a weight is 1 / 3
      }
      error += (out[row] - exact) * (out[row] - exact);
      squares += norm;
    }
    // Uniform values in four levels: each error is within an eighth of the range.
    EXPECT_LT(std::sqrt(error / squares), columns == 1 ? 0.6 : 0.4) << columns;
  }
}

TEST(TwoBitRows, SumsOfTheWidestRowFitAndBrokenInputIsNan) {
  ThreadPool pool(1);
  constexpr int64_t kColumns = TwoBitRows::kMostColumns;
  TwoBitRows matrix = *TwoBitRows::Create(1, kColumns);
  std::vector<float> ones(kColumns, 1.0f);
  matrix.SetRow(0, ones);
  TwoBitRows::Input input = matrix.MakeInput();
  matrix.Quantize(ones, input);
  float out = 0;
  matrix.Multiply(input, &out, pool);
  EXPECT_NEAR(out, kColumns, 1e-3 * kColumns);
  ones[5] = std::numeric_limits<float>::infinity();
  matrix.Quantize(ones, input);
  matrix.Multiply(input, &out, pool);
  EXPECT_TRUE(std::isnan(out));
}

TEST(HeadShape, AutoLeavesSmallVocabulariesAlone) {
  ModelConfig config;
  config.vocab_size = 320;
  config.embedding_length = 896;
  const WeightApproximation approximation{.head = DraftHead::kAuto};
  EXPECT_EQ(HeadShape::Of(approximation, config).kind, DraftHead::kExact);
  config.vocab_size = 151936;
  EXPECT_NE(HeadShape::Of(approximation, config).kind, DraftHead::kAuto);
}

double RelativeError(const std::vector<float>& values, const std::vector<float>& exact) {
  double error = 0, squares = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    error += (values[i] - exact[i]) * (values[i] - exact[i]);
    squares += exact[i] * exact[i];
  }
  return std::sqrt(error / squares);
}

TEST(FourBitRepack, ShrinksTheModelAndKeepsItsLogits) {
  const Tokens tokens = RandomTokens(40, 300, 9);
  TinyModelOptions options = HeadModel();
  options.weight_type = TensorType::kQ4_0;  // rounded plainly by the writer
  const std::vector<float> rounded = HeadRun(TinyModelBytes(options), {}).Logits(tokens);
  for (const TensorType type : {TensorType::kQ8_0, TensorType::kF16}) {
    options.weight_type = type;
    const std::vector<uint8_t> bytes = TinyModelBytes(options);
    const auto stored = *LoadApproximate(bytes, {});
    const auto repacked = *LoadApproximate(bytes, {.to_four_bits = true});
    const WeightFigures figures = repacked->weight_figures();
    EXPECT_EQ(figures.macs_per_row, stored->weight_figures().macs_per_row);
    EXPECT_LE(static_cast<double>(figures.packed_bytes),
              1.1 * static_cast<double>(figures.macs_per_row) * 4.5 / 8);
    const std::vector<float> exact = HeadRun(bytes, {}).Logits(tokens);
    const std::vector<float> close = HeadRun(bytes, {.to_four_bits = true}).Logits(tokens);
    EXPECT_GT(RelativeError(close, exact), 0);
    // Two random layers blow up every error; what a 4-bit file of the same weights gives is the
    // measure (four_bit_blocks_test compares the quantisers themselves).
    EXPECT_LT(RelativeError(close, exact), 1.1 * RelativeError(rounded, exact));
  }
}

TEST(FourBitRepack, WhatIsInFourBitsAlreadyStaysAsItIs) {
  for (const TensorType type : {TensorType::kQ4_0, TensorType::kQ4_1}) {
    TinyModelOptions options = HeadModel();
    options.weight_type = type;
    const std::vector<uint8_t> bytes = TinyModelBytes(options);
    const Tokens tokens = RandomTokens(5, 300, 10);
    HeadRun stored(bytes, {}), repacked(bytes, {.to_four_bits = true});
    EXPECT_TRUE(SameBits(stored.Logits(tokens), repacked.Logits(tokens)));
  }
}

}  // namespace
}  // namespace tahmin
