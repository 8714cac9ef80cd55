// Stage 4 of a step: asks the drafters in use for their trees, as much of each as the controller
// grants, and merges them into the tree that is submitted; and tells them afterwards what came of
// it. One object per step.
#pragma once

#include <cstdint>
#include <vector>

#include "draft/fused.h"
#include "engine/sequence.h"
#include "step/accepted_path.h"
#include "step/step_stats.h"
#include "step/verified_tree.h"

namespace tahmin {

// What the drafts of a step must fit into.
struct DraftLimits {
  int64_t context_tokens = 0;        // of the target: the root and each node need a slot
  int64_t draft_context_tokens = 0;  // 0: no drafter has a context of its own
  int32_t max_tokens = 0;            // most nodes of the tree that is submitted
  int32_t valid_vocab_size = 0;      // ids that may be drawn
};

class DraftPhase {
 public:
  // Fills step->drafters (calls, proposals, draft_ms).
  DraftPhase(const DraftLimits& limits, Sequence& sequence, StepStats* step);

  // To be submitted: fits the limits.
  const DraftTree& tree() const { return fused_.tree(); }
  // The drafter that is credited with a node of it.
  int32_t DrafterOf(int32_t node) const { return fused_.DrafterOf(node); }

  // Who is credited with the accepted nodes, and which own nodes turned out right. `path` as the
  // rule returned it.
  void CountOutcomes(const AcceptedPath& path, StepStats* step) const;

  // After the commit, while generation goes on.
  void Observe(Sequence& sequence, const VerifiedTree& verified, const AcceptedPath& path,
               StepStats* step) const;

 private:
  struct Proposal {
    DraftTree own;                      // as the drafter gave it
    std::vector<int32_t> clipped_node;  // own node -> node of what may be submitted of it; -1
    DraftTree clipped;
  };
  std::vector<int32_t> NodeMapOf(int32_t drafter) const;  // own node -> submitted node; -1

  std::vector<Proposal> proposals_;  // by drafter
  FusedTree fused_;
};

}  // namespace tahmin
