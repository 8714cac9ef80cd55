// What a drafter may see of the sequence that it serves. Views, valid during the call.
#pragma once

#include <cstdint>
#include <span>

#include "tahmin/options.h"

namespace tahmin {

struct SequenceView {
  // Prompt and output so far; the last one is the root token (sampled, not yet in the KV cache).
  std::span<const int32_t> tokens;
  int32_t num_prompt_tokens = 0;
  const SamplingOptions* sampling = nullptr;  // effective options, seed filled in
  AcceptanceRuleKind acceptance = AcceptanceRuleKind::kKeyed;
  uint64_t seed = 0;
  int64_t step_index = 0;
};

}  // namespace tahmin
