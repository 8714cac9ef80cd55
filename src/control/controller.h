// Plans how much is drafted in the next step, and by whom. Only the amount: under the keyed rule
// what is emitted never depends on it. One object per engine or request; decoding thread only.
// Drafters are known by their index in the order of calling.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "step/draft_budget.h"
#include "step/draft_tree.h"
#include "step/step_stats.h"

namespace tahmin {

// What is known before a step.
struct StepOutlook {
  int64_t num_tokens = 0;   // prompt and output so far
  int64_t tokens_left = 0;  // that may still be written
};

// What is known when a request's first token is there.
struct RequestOutlook {
  int64_t prompt_tokens = 0;
  int64_t cached_prompt_tokens = 0;  // not prefilled again
  double prefill_ms = 0;             // of the target
};

class Controller {
 public:
  virtual ~Controller() = default;

  virtual void BeginRequest(const RequestOutlook& outlook) = 0;
  virtual void BeginStep(const StepOutlook& outlook) = 0;

  // Asked in the order of calling; so_far: what the earlier drafters gave, merged, with acceptance
  // estimates as confidences. max_tokens 0: the drafter is not called.
  virtual DraftBudget BudgetFor(int32_t drafter, const DraftTree& so_far) = 0;

  // Estimates for the nodes of a drafter's tree: P(accepted | parent accepted).
  virtual std::vector<float> AcceptanceOf(int32_t drafter, const DraftTree& own) const = 0;

  // Which nodes of the merged tree to submit; at most max_tokens are.
  virtual std::vector<bool> Select(const DraftTree& merged, int32_t max_tokens) const = 0;

  virtual void Update(const StepStats& stats) = 0;

  // Whether StepStats::root_confidence is worth a look at a row of logits.
  virtual bool WantsConfidence() const { return false; }

  // Estimated cost of a pass over 1 + num_drafted rows; 0: unknown.
  virtual double VerifyMs(int32_t num_drafted) const = 0;
};

// fixed.cc: the same budget every step; several drafters share draft_max nodes, the likeliest
// first. widths: most children of a node, one per drafter.
std::unique_ptr<Controller> MakeFixedController(int32_t draft_max, std::vector<int32_t> widths);

}  // namespace tahmin
