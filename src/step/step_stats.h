// Counts and times of one decoding step; the engine adds them up (include/tahmin/metrics.h).
#pragma once

#include <cstdint>

namespace tahmin {

struct StepStats {
  int32_t num_drafted = 0;    // nodes submitted to the verifier
  int32_t num_tested = 0;     // draft tokens that the rule looked at along the path
  int32_t num_accepted = 0;   // draft tokens that the rule kept
  int32_t num_committed = 0;  // tokens emitted, the residual or bonus token included
  double draft_ms = 0;        // Draft and Observe
  double verify_ms = 0;
  double total_ms = 0;
};

}  // namespace tahmin
