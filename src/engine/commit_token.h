// The one routine through which every token goes on its way into the text: first token, accepted
// draft token, correction and bonus token alike, one at a time and in order. It may say that
// generation ends here; the caller then drops the rest of its block.
#pragma once

#include <cstdint>
#include <span>

#include "engine/sequence.h"
#include "engine/step_context.h"

namespace tahmin {

// Appends `token`, drawn from `logits` [vocab_size] (raw), to the sequence (which makes it the
// history of later penalties), checks end ids, stop strings and length, streams the text that is
// free, and counts. Returns true when generation goes on.
bool CommitToken(StepContext& context, Sequence& sequence, int32_t token,
                 std::span<const float> logits, bool was_drafted);

// Ends the request from outside (cancelled) and streams what was held back.
void FinishStream(StepContext& context, Sequence& sequence, FinishReason reason);

}  // namespace tahmin
