// How often a drafter's tokens are accepted, learnt while decoding: decayed counts by depth and by
// the confidence that the drafter gave (binned). What followed a rejected token is unknown and
// never counted (censored): callers add only nodes whose parent was emitted. Estimates start from
// the confidence itself and move to the counts as they come. Pure arithmetic; one object per
// drafter.
#pragma once

#include <array>
#include <cstdint>

#include "step/confidence_scale.h"

namespace tahmin {

class AcceptanceEma {
 public:
  // One node.
  void Add(int32_t depth, float confidence, bool is_accepted);
  // The first choice at a depth, behind first choices only: what a chain would have been there.
  void AddChoice(int32_t depth, bool is_accepted);
  // A new text begins: weighs what was counted by confidence by 1 - share, and what was counted by
  // depth, which says more about the text than about the drafter, by 1 - share_of_depths.
  void Forget(double share, double share_of_depths);

  // P(accepted | parent accepted) of a node at `depth` (1, 2, ...) with that confidence.
  float Acceptance(int32_t depth, float confidence) const;
  // The same over all depths, as a table.
  ConfidenceScale Scale() const;
  // P(accepted | parent accepted) at a depth whatever the confidence: what the next chain can be
  // expected to do before it is drafted. prior: where nothing has been counted.
  double AtDepth(int32_t depth, double prior) const;
  double NumTested() const { return all_.tested; }  // first choices, lately: decayed

 private:
  struct Count {
    double tested = 0, accepted = 0;
  };
  static constexpr int32_t kDepthClasses = 3;  // depth 1, 2 to 3, 4 and deeper
  static constexpr int32_t kDepths = 16;       // counted one by one; deeper ones with the last
  static int32_t ClassOf(int32_t depth) { return depth <= 1 ? 0 : depth <= 3 ? 1 : 2; }
  static void Add(Count* count, bool is_accepted);
  double OfBin(int32_t bin) const;
  double OfBin(int32_t depth_class, int32_t bin) const;

  std::array<Count, ConfidenceScale::kBins> bins_ = {};
  std::array<std::array<Count, ConfidenceScale::kBins>, kDepthClasses> class_bins_ = {};
  std::array<Count, kDepths> depths_ = {};
  Count all_ = {};
};

}  // namespace tahmin
