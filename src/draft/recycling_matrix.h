// What the target thought would follow a token when it last saw it: for every token, and for the
// pairs of tokens seen last, the eight likeliest successors of a verified row with an estimate of
// their probabilities. Filled by `recycling` (token_recycling.h). Owned by the engine, so that
// later requests profit from earlier ones; used by the decoding thread only. Memory is fixed at
// creation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "draft/successor_acceptance.h"
#include "sampling/row_scan.h"

namespace tahmin {

class RecyclingMatrix {
 public:
  static constexpr int32_t kSuccessors = SuccessorAcceptance::kRanks;
  // Pairs of tokens share this many rows; a new pair takes the place of the one in its row.
  static constexpr size_t kPairRows = size_t{1} << 16;

  // One cache line. Successors differ, are ids of the vocabulary and are ranked; a share of 0 ends
  // the list.
  struct alignas(64) Row {
    std::array<int32_t, kSuccessors> tokens{};
    std::array<uint16_t, kSuccessors> shares{};  // probabilities in units of 1 / kUnit
    int32_t previous = -1, token = -1;           // the pair that a pair row belongs to

    float ProbabilityOf(int32_t rank) const { return shares[rank] * (1.0f / kUnit); }
  };
  static constexpr int32_t kUnit = 65535;

  struct Found {
    const Row& row;
    bool knows_pair;  // the row was last written behind (previous, token), not behind token alone
  };

  explicit RecyclingMatrix(int32_t vocab_size);

  // The successors of `token` behind `previous` (-1: nothing is in front of it). token is an id of
  // the vocabulary.
  Found Find(int32_t previous, int32_t token) const;

  // Takes the best successors out of the logits [at least vocab_size] of a verified row whose input
  // was `token`. One vectorised pass. A row with a NaN or without a finite logit changes nothing.
  void StoreLogits(int32_t previous, int32_t token, std::span<const float> logits);
  // Text that the target did not write, such as the prompt: the follower gains half of what there
  // is to know and goes up in rank, the others keep the other half.
  void StoreFollower(int32_t previous, int32_t token, int32_t follower);

  // How often successors turned out right, over all requests.
  SuccessorAcceptance& acceptance() { return acceptance_; }

  bool IsToken(int32_t token) const { return token >= 0 && token < vocab_size_; }
  int32_t vocab_size() const { return vocab_size_; }
  size_t allocated_bytes() const { return (token_rows_.size() + pair_rows_.size()) * sizeof(Row); }

 private:
  Row& PairRow(int32_t previous, int32_t token);

  const int32_t vocab_size_;
  std::vector<Row> token_rows_;  // [vocab_size]
  std::vector<Row> pair_rows_;   // [kPairRows], by hash
  SuccessorAcceptance acceptance_;
  RowScan scan_;
};

}  // namespace tahmin
