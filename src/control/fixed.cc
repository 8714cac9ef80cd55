#include <algorithm>

#include "control/controller.h"

namespace tahmin {
namespace {

class FixedController final : public Controller {
 public:
  explicit FixedController(int32_t draft_max) : draft_max_(std::max(draft_max, 0)) {}

  DraftBudget Plan() override {
    return {.max_tokens = draft_max_, .max_depth = draft_max_, .max_width = 1};
  }
  void Update(const StepStats&) override {}

 private:
  int32_t draft_max_;
};

}  // namespace

std::unique_ptr<Controller> MakeFixedController(int32_t draft_max) {
  return std::make_unique<FixedController>(draft_max);
}

}  // namespace tahmin
