// A trace of what `auto` was told and what it chose, so that its choices in a real run can be
// made again, and looked at, without the models. Text, one event a line; numbers are written so
// that they are read back as the same bits:
//   tahmin-controller-trace 3
//   options MAX_TOKENS, N drafters of WIDTH COSTS_PER_TOKEN PASS_MS, N points of ROWS MS
//   request PROMPT_TOKENS CACHED PREFILL_MS
//   step NUM_TOKENS TOKENS_LEFT
//   budget DRAFTER TREE = MAX_TOKENS MAX_DEPTH MAX_WIDTH MAX_CATCH_UP SPARE_CHOICES
//   select MAX_TOKENS TREE = one 0 or 1 a node
//   update NUM_TOKENS DRAFTED TESTED ACCEPTED COMMITTED DRAFT_MS VERIFY_MS TOTAL_MS
//     ROOT_CONFIDENCE, N drafters of
//     CALLED PROPOSED LEVELS SUBMITTED ACCEPTED DRAFT_MS OBSERVE_MS, N outcomes of DEPTH CONFIDENCE
//     ACCEPTED
// Lists begin with their length; a TREE is a list of TOKEN PARENT CONFIDENCE PROBE.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "control/adaptive.h"

namespace tahmin {

// Stands in front of a controller that has not been told anything yet and writes every event down.
class TraceRecorder final : public Controller {
 public:
  // Both outlive the recorder; lines are appended to *trace.
  TraceRecorder(AdaptiveController& controller, std::string* trace);

  void BeginRequest(const RequestOutlook& outlook) override;
  void BeginStep(const StepOutlook& outlook) override;
  DraftBudget BudgetFor(int32_t drafter, const DraftTree& so_far) override;
  std::vector<float> AcceptanceOf(int32_t drafter, const DraftTree& own) const override;
  std::vector<bool> Select(const DraftTree& merged, int32_t max_tokens) const override;
  void Update(const StepStats& stats) override;
  bool WantsConfidence() const override { return controller_.WantsConfidence(); }
  double VerifyMs(int32_t num_drafted) const override;

 private:
  AdaptiveController& controller_;
  std::string* const trace_;
};

struct ReplayReport {
  int64_t num_steps = 0;
  int64_t num_choices = 0;  // budgets and selections
  // Choices that came out otherwise, as "line N: expected ..., found ...".
  std::vector<std::string> differences;
};

// Tells a fresh adaptive controller all that the trace says and compares its choices with those
// recorded. INVALID_ARGUMENT, with the line, for what is no trace.
absl::StatusOr<ReplayReport> ReplayTrace(std::string_view trace);

}  // namespace tahmin
