// From a row of raw logits to the candidates of the next token: one code path for plain and
// speculative decoding. The order is fixed (llama.cpp's): logit bias and penalties, top-k, top-p,
// min-p, temperature; so top-p and min-p look at the probabilities before the temperature. Ties go
// to the lowest id; cumulative sums run in ranked order (logit descending, id ascending) in double;
// there is no hidden cap on candidates.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sampling/row_scan.h"
#include "step/token_distribution.h"
#include "tahmin/options.h"

namespace tahmin {

// INVALID_ARGUMENT that names the field and its range: NaN, negative temperature, top_p outside (0,
// 1], bias for an id outside [0, vocab_size), ...
absl::Status ValidateSamplingOptions(const SamplingOptions& options, int32_t vocab_size);

struct Candidate {
  int32_t token;
  // After bias and penalties. Where the temperature is > 0, counted from the row's largest and
  // divided: (logit - largest) / temperature, which leaves the softmax as it is and stays exact for
  // the likely tokens at any temperature.
  float logit;
};

// Reusable scratch and result of one row. Not thread-safe; keep one per sequence.
class CandidateBuilder {
 public:
  explicit CandidateBuilder(SamplingOptions options);

  // logits [vocab_size]: raw. history: all tokens before this position (prompt included), whose
  // tail of penalty_window tokens the penalties look at. Ids >= valid_vocab_size (padding of the
  // matrix) never survive. Returns the survivors, valid until the next call: ranked when a filter
  // is on or the temperature is 0 (then exactly one), in id order otherwise. INTERNAL when a logit
  // is NaN or +infinity, or no candidate is left.
  absl::StatusOr<std::span<const Candidate>> Build(std::span<const float> logits,
                                                   std::span<const int32_t> history,
                                                   int32_t valid_vocab_size);

  const SamplingOptions& options() const { return options_; }

 private:
  absl::Status CheckScan(std::span<const float> row) const;
  void KeepBest(std::span<const float> row);
  void Filter(std::span<const float> row);
  void CollectAll(std::span<const float> row);
  void ApplyTemperature();

  SamplingOptions options_;
  std::vector<Candidate> candidates_;
  std::vector<float> adjusted_;                      // logits after bias and penalties
  RowScan scan_;                                     // of the adjusted row
  std::vector<std::pair<int32_t, int32_t>> counts_;  // (token, occurrences in the window)
};

// Softmax of the candidates' logits in double, normalised, sorted as TokenDistribution demands. At
// least one candidate.
TokenDistribution ToDistribution(std::span<const Candidate> candidates);

}  // namespace tahmin
