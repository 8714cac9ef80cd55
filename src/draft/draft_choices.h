// From a row of the draft model's logits to the tokens that the target is likeliest to choose
// there, best first, each with a confidence. Reusable scratch; one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "sampling/candidates.h"
#include "tahmin/options.h"

namespace tahmin {

struct DraftChoice {
  int32_t token;
  float confidence;  // in (0, 1]; those of all candidates of a row add up to 1
};

// Greedy: by logit, and the confidence is the softmax at temperature 1 over the best candidates
// (after bias and penalties; no temperature tells how sure a greedy draft is).
//
// Keyed draws: the target adds noise to its own logits that the draft knows, as both have the key.
// So the candidates are ranked by noisy logit, not by probability: the first is the draft's own
// keyed draw, the second is what it would draw without the first, and so on. The confidence is the
// softmax of T x (logit / T + noise): how sure the draft is of its logits is the same with noise as
// without, and as T goes to 0 this becomes the greedy case. The probability of the drawn token
// would say something else, namely how often it is drawn.
class DraftChoices {
 public:
  explicit DraftChoices(const SamplingOptions& sampling);

  // logits [at least valid_vocab_size]; history: all tokens before the drawn one. At most `most`
  // choices, at least one; valid until the next call. Fails as CandidateBuilder does.
  absl::StatusOr<std::span<const DraftChoice>> Rank(std::span<const float> logits,
                                                    std::span<const int32_t> history, uint64_t seed,
                                                    int32_t valid_vocab_size, int32_t most);

 private:
  struct Scored {
    float score;
    int32_t token;
  };
  void AddNoise(std::span<const Candidate> candidates, uint64_t seed, int64_t position);

  float score_scale_;  // from a score to a logit at temperature 1
  bool is_greedy_;
  CandidateBuilder builder_;
  std::vector<Scored> scored_;
  std::vector<float> noise_;
  std::vector<DraftChoice> choices_;
};

}  // namespace tahmin
