// Natural-log probabilities of the raw logits (no penalty, no temperature), as the API reports
// them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tahmin {

struct TokenLogprob {
  int32_t token;
  float logprob;
};

// log-sum-exp of a row, in double, in id order.
double LogSumExp(std::span<const float> logits);

// The n largest, logit descending, id ascending among equals.
std::vector<TokenLogprob> TopLogprobs(std::span<const float> logits, int32_t n);

}  // namespace tahmin
