// One decoding step: plan, draft, verify, accept, commit, stream, measure.
#pragma once

#include "absl/status/status.h"
#include "engine/sequence.h"
#include "engine/step_context.h"

namespace tahmin {

// Emits at least one token. The sequence is not finished and has room for one more token. On an
// error (a NaN logit, a tree that the acceptance rule refuses) the KV cache is rolled back to where
// the step began and no token is committed.
absl::Status DecodeStep(StepContext& context, Sequence& sequence);

}  // namespace tahmin
