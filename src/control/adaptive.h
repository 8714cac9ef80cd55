// The policy behind `auto`, and behind drafters whose draft length is not fixed: drafts as much as
// makes the most tokens per second on this machine now, zero included. Renewal-reward reasoning:
// with R the tokens per millisecond reached lately, a step that is expected to emit E tokens in C
// milliseconds is worth E - R * C, and the choice with the largest worth is made:
//   - drafters that cost nothing are asked every step; their tree is cut to the best n nodes;
//   - a drafter that pays for every token is asked when its expected chain is worth more than that,
//     and stops by itself where one more token is not worth its time;
//   - one that has fallen out of use is tried again, ever more rarely, and only as long as such
//     trials have cost less than a small part of the time that plain decoding would have taken.
// Costs and acceptance are learnt from every step (cost_model.h, acceptance_ema.h). Its choices are
// a function of what it is told: the same trace gives the same choices.
#pragma once

#include <memory>
#include <vector>

#include "control/controller.h"
#include "control/cost_model.h"

namespace tahmin {

struct AdaptiveDrafter {
  int32_t width = 1;             // most children of a node
  bool costs_per_token = false;  // each node takes a pass of a model
  double pass_ms = 0;            // of such a pass; 0: not known yet
};

struct AdaptiveOptions {
  std::vector<AdaptiveDrafter> drafters;  // in the order of calling, free ones first
  std::vector<RowCost> verify_cost;       // T(n), see VerifyCost
  // Most nodes of a tree: a long copied passage is verified in few passes.
  int32_t max_tokens = 24;
};

class AdaptiveController : public Controller {
 public:
  virtual const AdaptiveOptions& Options() const = 0;  // as it was made
  // As learnt so far.
  virtual std::vector<RowCost> VerifyCosts() const = 0;
  virtual double PassMs() const = 0;  // of the first drafter that pays; 0: not known
  // Between requests: other drafters of the same kind take over, which have read nothing.
  virtual void DraftersAreNew() = 0;
};

std::unique_ptr<AdaptiveController> MakeAdaptiveController(const AdaptiveOptions& options);

}  // namespace tahmin
