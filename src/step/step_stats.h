// Counts and times of one decoding step; the engine adds them up (include/tahmin/metrics.h), the
// controller learns from them.
#pragma once

#include <cstdint>
#include <vector>

namespace tahmin {

// What became of one node of a drafter's own tree. Only nodes whose parent was emitted have an
// outcome: what would have followed another token is unknown, not a failure.
struct NodeOutcome {
  int32_t depth = 1;
  float confidence = 0;  // as the drafter gave it
  bool is_accepted = false;
};

struct DrafterStep {
  bool was_called = false;
  int32_t num_proposed = 0;   // nodes of its own tree
  int32_t num_levels = 0;     // its depth: passes, of a drafter that pays for every token
  int32_t num_submitted = 0;  // nodes of the submitted tree that are credited to it
  int32_t num_accepted = 0;   // of those
  double draft_ms = 0;
  double observe_ms = 0;
  std::vector<NodeOutcome> outcomes;
};

struct StepStats {
  int64_t num_tokens = 0;     // prompt and output before the step
  int32_t num_drafted = 0;    // nodes submitted to the verifier
  int32_t num_tested = 0;     // draft tokens that the rule looked at along the path
  int32_t num_accepted = 0;   // draft tokens that the rule kept
  int32_t num_committed = 0;  // tokens emitted, the residual or bonus token included
  // The target's probability of its most likely token behind the root; < 0: not looked at.
  float root_confidence = -1;
  double draft_ms = 0;  // Draft and Observe, all drafters
  double verify_ms = 0;
  double total_ms = 0;
  std::vector<DrafterStep> drafters;
};

}  // namespace tahmin
