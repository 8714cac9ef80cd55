// The one struct that the decoding loop carries from step to step. One per request, owned by
// Engine::Generate; touched by the decoding thread only.
// Invariant between steps: the KV cache holds tokens[0 .. size - 1), the root token is not in it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "accept/acceptance_rule.h"
#include "control/controller.h"
#include "draft/drafter.h"
#include "step/sequence_view.h"
#include "stream/stop_conditions.h"
#include "tahmin/engine.h"

namespace tahmin {

// Owned by the engine: it outlives the request in a chat.
struct SequenceDrafter {
  Drafter* drafter = nullptr;
  bool has_own_context = false;  // a draft model's, which may be full
};

struct Sequence {
  std::vector<int32_t>
      tokens;  // prompt and output; the last one is the root token, not yet in the KV cache
  int32_t num_prompt_tokens = 0;
  int64_t token_limit =
      0;  // most tokens, prompt included: the context or max_tokens, whichever is less
  int32_t kv_handle = -1;
  int64_t step_index = 0;  // 0: the draw from the prefill's logits; decoding steps count from 1
  uint64_t seed = 0;
  SamplingOptions sampling;  // effective: seed filled in, ignored end tokens banned
  AcceptanceRuleKind acceptance = AcceptanceRuleKind::kKeyed;
  int32_t num_logprobs = 0;

  std::vector<SequenceDrafter> drafters;  // in the order of calling
  Controller* controller = nullptr;       // owned by the engine
  std::unique_ptr<AcceptanceRule> rule;
  std::unique_ptr<StopConditions> stop;
  GenerationStats stats;
  std::vector<TokenEvent> logprobs;  // one per committed token when asked for

  int32_t root_token() const { return tokens.back(); }
  bool finished() const { return stop->finish() != FinishReason::kNone; }
  SequenceView View() const {
    return {.tokens = tokens,
            .num_prompt_tokens = num_prompt_tokens,
            .sampling = &sampling,
            .acceptance = acceptance,
            .seed = seed,
            .step_index = step_index};
  }
};

}  // namespace tahmin
