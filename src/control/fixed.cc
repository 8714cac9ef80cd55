#include <algorithm>
#include <utility>

#include "control/controller.h"
#include "control/node_selection.h"

namespace tahmin {
namespace {

class FixedController final : public Controller {
 public:
  FixedController(int32_t draft_max, std::vector<int32_t> widths)
      : draft_max_(std::max(draft_max, 0)), widths_(std::move(widths)) {}

  void BeginRequest(const RequestOutlook&) override {}
  void BeginStep(const StepOutlook&) override {}

  DraftBudget BudgetFor(int32_t drafter, const DraftTree&) override {
    return {.max_tokens = draft_max_, .max_depth = draft_max_, .max_width = widths_[drafter]};
  }
  std::vector<float> AcceptanceOf(int32_t, const DraftTree& own) const override {
    std::vector<float> acceptance;
    for (const DraftNode& node : own.nodes) acceptance.push_back(node.confidence);
    return acceptance;
  }
  std::vector<bool> Select(const DraftTree& merged, int32_t max_tokens) const override {
    const int32_t most = std::min(max_tokens, draft_max_);
    return KeepBest(merged, RankBySurvival(merged), most, most);
  }
  void Update(const StepStats&) override {}
  double VerifyMs(int32_t) const override { return 0; }

 private:
  int32_t draft_max_;
  std::vector<int32_t> widths_;
};

}  // namespace

std::unique_ptr<Controller> MakeFixedController(int32_t draft_max, std::vector<int32_t> widths) {
  return std::make_unique<FixedController>(draft_max, std::move(widths));
}

}  // namespace tahmin
