// Plans how much is drafted in the next step. Only the amount: what is emitted never depends on it.
#pragma once

#include <memory>

#include "step/draft_budget.h"
#include "step/step_stats.h"

namespace tahmin {

class Controller {
 public:
  virtual ~Controller() = default;
  virtual DraftBudget Plan() = 0;
  virtual void Update(const StepStats& stats) = 0;
};

// fixed.cc: the same chain budget every step.
std::unique_ptr<Controller> MakeFixedController(int32_t draft_max);

}  // namespace tahmin
