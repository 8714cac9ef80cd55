// `lookahead`: the target guesses for itself. W columns of a Jacobi iteration ride along in every
// verify pass; what runs through a column in N - 1 passes is an n-gram, and up to G n-grams that
// begin with the root token are the guess.
// Fu et al., "Break the sequential dependency of LLM inference using lookahead decoding", arXiv
// 2402.02057, algorithm 2 and figure 2. The window is part of an ordinary draft tree: level 0 is a
// trunk that hangs on the root, the higher levels of column i are a chain on the trunk's node i,
// and n-grams hang on the root; where two of them put the same token below the same node they share
// it. Where we differ:
//   - the bonus token is kept, and window nodes that happen to be right are accepted like any
//   other;
//   - n-grams of the prompt and of the emitted text join the pool (the reference has it as an
//     option);
//   - a budget that is too small keeps the guesses first, since they can pay at once, then as many
//     whole columns as fit; a column left out keeps its last token and goes on when there is room.
//     Steps whose root token begins no known n-gram give the window all of the budget.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "draft/drafter.h"
#include "draft/ngram_pool.h"
#include "sampling/row_scan.h"

namespace tahmin {

struct LookaheadShape {
  int32_t window = 5;   // W, columns
  int32_t ngram = 4;    // N, tokens of an n-gram with its key
  int32_t guesses = 4;  // G, n-grams verified in a step and kept for each key

  // Nodes and levels of the largest tree, and most children of a node (of the root: the n-grams,
  // the trunk and column 0): a budget of these leaves nothing out.
  int32_t MostNodes() const { return window - 1 + window * (ngram - 2) + guesses * (ngram - 1); }
  int32_t MostDepth() const { return std::max(window - 1 + ngram - 2, ngram - 1); }
  constexpr int32_t MostWidth() const { return guesses + 2; }
};

// INVALID_ARGUMENT: expected 1 <= window <= 64, 2 <= ngram <= 16, 1 <= guesses <= 64.
absl::Status ValidateLookaheadShape(const LookaheadShape& shape);

class Lookahead final : public Drafter {
 public:
  static constexpr int32_t kMostKeys = 1 << 14;  // of the pool

  // A valid shape; vocab_size: ids that may be proposed.
  Lookahead(const LookaheadShape& shape, int32_t vocab_size);

  std::string_view Name() const override { return "lookahead"; }
  // A new window; the pool stays, as n-grams are worth something in the next text as well.
  void Begin(const SequenceView& sequence) override;
  DraftTree Draft(const SequenceView& sequence, const DraftBudget& budget) override;
  void Observe(const SequenceView& sequence, const DraftTree& draft, const VerifiedTree& verified,
               const AcceptedPath& accepted, std::span<const int32_t> node_map) override;

  const NgramPool& pool() const { return pool_; }
  // Tokens by level and column. All levels have the same columns; the first one's column 0 is the
  // root token. One level after Begin, one more after every step until there are N - 1.
  const std::vector<std::vector<int32_t>>& levels() const { return levels_; }

 private:
  // What a node is there for: its confidence is learnt by kind.
  enum Kind {
    kFirstOfGuess,
    kFirstOfOlderGuess,
    kRestOfGuess,
    kFirstOfWindow,
    kRestOfWindow,
    kKinds
  };
  struct Rate {
    float hits, tests;
  };
  struct Growth;  // the tree while it grows

  void AddGuesses(int32_t root_token, Growth& growth);
  void AddWindow(Growth& growth);
  int32_t AddPath(int32_t parent, std::span<const int32_t> path, bool is_probe, Growth& growth);
  void AddTextNgrams(std::span<const int32_t> tokens);
  void LearnRates(std::span<const int32_t> emitted, const DraftTree& draft);
  std::vector<int32_t> NewTokens(const VerifiedTree& verified, std::span<const int32_t> node_map);
  void AddWindowNgrams(std::span<const int32_t> new_tokens);
  void ShiftWindow(std::span<const int32_t> new_tokens);
  int32_t BestToken(std::span<const float> logits);

  const LookaheadShape shape_;
  const int32_t vocab_size_;
  NgramPool pool_;
  std::vector<std::vector<int32_t>> levels_;
  std::vector<int32_t> column_ends_;   // node at the last level of each column; kNotSubmitted
  std::vector<int32_t> known_tokens_;  // whose n-grams are in the pool
  std::vector<Kind> kinds_;            // of the nodes of the last draft
  std::array<Rate, kKinds> rates_;
  RowScan scan_;
};

}  // namespace tahmin
