#include "draft/recycling_matrix.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace tahmin {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int32_t kSuccessors = RecyclingMatrix::kSuccessors;

// The best of a row so far: logit descending, id ascending among equals, as ids come in order.
struct BestLogits {
  std::array<float, kSuccessors> logits;
  std::array<int32_t, kSuccessors> tokens;
  int32_t size = 0;

  // Nothing at or below it gets in.
  float bar() const { return size == kSuccessors ? logits[kSuccessors - 1] : -kInfinity; }
  void Insert(float logit, int32_t token) {
    int32_t place = size < kSuccessors ? size++ : kSuccessors - 1;
    for (; place > 0 && logits[place - 1] < logit; --place) {
      logits[place] = logits[place - 1];
      tokens[place] = tokens[place - 1];
    }
    logits[place] = logit;
    tokens[place] = token;
  }
};

// A lower bound of the eighth largest logit: so many blocks have a maximum that large.
float EighthLargest(std::span<const float> block_max) {
  BestLogits best;
  for (const float max : block_max) {
    if (max > best.bar()) best.Insert(max, 0);
  }
  return best.bar();
}

BestLogits PickBest(std::span<const float> row, const RowScan& scan) {
  BestLogits best;
  const float threshold = EighthLargest(scan.block_max);
  for (size_t block = 0; block < scan.block_max.size(); ++block) {
    if (scan.block_max[block] < threshold) continue;
    const size_t end = std::min(row.size(), (block + 1) * kScanBlock);
    for (size_t i = block * kScanBlock; i < end; ++i) {
      if (row[i] > best.bar()) best.Insert(row[i], static_cast<int32_t>(i));
    }
  }
  return best;
}

// Schraudolph, "A fast, compact approximation of the exponential function" (1999): within 4 %,
// which is plenty for an estimate. x <= 0.
float RoughExp(float x) {
  const float bits = std::max(x, -80.0f) * 12102203.0f + 1064866805.0f;
  return std::bit_cast<float>(static_cast<int32_t>(bits));
}

// The softmax denominator, counted from the largest logit: the best ones, and of every block that
// holds none of them its maximum. The other logits are left out: a row whose mass sits in them has
// no successor worth a guess.
float RoughDenominator(const RowScan& scan, const BestLogits& best) {
  constexpr size_t kLanes = 8;  // so that the compiler may use vectors
  std::array<float, kLanes> sums{};
  const float last = best.logits[best.size - 1];
  const auto weight = [&](float max) { return max < last ? RoughExp(max - scan.max) : 0.0f; };
  size_t block = 0;
  for (; block + kLanes <= scan.block_max.size(); block += kLanes) {
    for (size_t i = 0; i < kLanes; ++i) sums[i] += weight(scan.block_max[block + i]);
  }
  float sum = 0;
  for (; block < scan.block_max.size(); ++block) sum += weight(scan.block_max[block]);
  for (const float partial : sums) sum += partial;
  for (int32_t i = 0; i < best.size; ++i) sum += std::exp(best.logits[i] - scan.max);
  return sum;
}

// A successor that is there has a share of at least 1.
uint16_t ShareOf(float probability) {
  const float share = std::round(probability * RecyclingMatrix::kUnit);
  return static_cast<uint16_t>(std::clamp(share, 1.0f, static_cast<float>(RecyclingMatrix::kUnit)));
}

void AddFollower(int32_t follower, RecyclingMatrix::Row& row) {
  int32_t place = kSuccessors - 1;  // the last one goes when the follower is new and all are taken
  for (int32_t i = kSuccessors - 1; i >= 0; --i) {
    if (row.shares[i] == 0 || row.tokens[i] == follower) place = i;
  }
  if (row.tokens[place] != follower || row.shares[place] == 0) row.shares[place] = 0;
  row.tokens[place] = follower;
  for (int32_t i = 0; i < kSuccessors; ++i) {
    if (row.shares[i] > 0) row.shares[i] = std::max<uint16_t>(1, row.shares[i] / 2);
  }
  row.shares[place] = static_cast<uint16_t>(row.shares[place] + RecyclingMatrix::kUnit / 2);
  for (; place > 0 && row.shares[place - 1] < row.shares[place]; --place) {
    std::swap(row.shares[place], row.shares[place - 1]);
    std::swap(row.tokens[place], row.tokens[place - 1]);
  }
}

size_t PairIndex(int32_t previous, int32_t token) {
  const uint64_t pair =
      static_cast<uint64_t>(static_cast<uint32_t>(previous)) << 32 | static_cast<uint32_t>(token);
  return static_cast<size_t>(pair * 0x9E3779B97F4A7C15ull >> 48) % RecyclingMatrix::kPairRows;
}

}  // namespace

RecyclingMatrix::RecyclingMatrix(int32_t vocab_size)
    : vocab_size_(vocab_size), token_rows_(vocab_size), pair_rows_(kPairRows) {}

RecyclingMatrix::Found RecyclingMatrix::Find(int32_t previous, int32_t token) const {
  TAHMIN_CHECK(IsToken(token));
  const Row& pair_row = pair_rows_[PairIndex(previous, token)];
  if (pair_row.token == token && pair_row.previous == previous) return {pair_row, true};
  return {token_rows_[token], false};
}

RecyclingMatrix::Row& RecyclingMatrix::PairRow(int32_t previous, int32_t token) {
  Row& row = pair_rows_[PairIndex(previous, token)];
  if (row.token == token && row.previous == previous) return row;
  row = Row{.previous = previous, .token = token};
  return row;
}

void RecyclingMatrix::StoreLogits(int32_t previous, int32_t token, std::span<const float> logits) {
  if (!IsToken(token) || vocab_size_ == 0) return;
  const std::span<const float> row = logits.first(static_cast<size_t>(vocab_size_));
  ScanRow(row, scan_);
  if (scan_.has_nan || !std::isfinite(scan_.max)) return;
  const BestLogits best = PickBest(row, scan_);
  const float scale = 1 / RoughDenominator(scan_, best);
  Row stored;
  for (int32_t i = 0; i < best.size; ++i) {
    stored.tokens[i] = best.tokens[i];
    stored.shares[i] = ShareOf(std::exp(best.logits[i] - scan_.max) * scale);
  }
  token_rows_[token] = stored;
  stored.previous = previous;
  stored.token = token;
  PairRow(previous, token) = stored;
}

void RecyclingMatrix::StoreFollower(int32_t previous, int32_t token, int32_t follower) {
  if (!IsToken(token) || !IsToken(follower)) return;
  AddFollower(follower, token_rows_[token]);
  AddFollower(follower, PairRow(previous, token));
}

}  // namespace tahmin
