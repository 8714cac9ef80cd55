// Runs the prompt through the target in chunks and draws the first root token from the last row.
#pragma once

#include "absl/status/statusor.h"
#include "engine/sequence.h"
#include "engine/step_context.h"

namespace tahmin {

// The KV cache of the sequence holds a prefix of the prompt (perhaps none), shorter than the
// prompt; afterwards it holds all of it, and sequence.tokens ends with the root token, committed
// and streamed. false: cancelled between chunks; the chunks done so far stay in the cache, no token
// is drawn.
absl::StatusOr<bool> Prefill(StepContext& context, Sequence& sequence);

}  // namespace tahmin
