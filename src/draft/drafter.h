// A drafter guesses the next tokens of one sequence. It lives as long as its sequence (one request,
// or a chat), takes shared weights from its factory and never touches the target's KV cache.
// Nothing that it does can change the text, and it cannot fail a request: at worst it gives an
// empty tree. Called by the decoding thread only. All its work counts as decoding time (draft_ms).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "step/accepted_path.h"
#include "step/draft_budget.h"
#include "step/draft_tree.h"
#include "step/sequence_view.h"
#include "step/verified_tree.h"

namespace tahmin {

struct DrafterNeeds {
  bool hidden_states = false;  // of the target's verified rows
};

class Drafter {
 public:
  virtual ~Drafter() = default;

  virtual std::string_view Name() const = 0;  // for logs and metrics only
  virtual DrafterNeeds Needs() const { return {}; }

  // The target has prefilled the prompt and the root token is drawn. May be called again when a
  // chat goes on: the new tokens extend or replace the earlier ones (find the common prefix
  // yourself).
  virtual void Begin(const SequenceView& sequence) = 0;

  // At most budget.max_tokens nodes, max_depth deep. Siblings differ; parents come first.
  virtual DraftTree Draft(const SequenceView& sequence, const DraftBudget& budget) = 0;

  // After the step is committed: `sequence` already holds the new tokens. `draft` is this drafter's
  // own tree, `verified` has the target's logits of the submitted tree, whose node node_map[i] is
  // this drafter's node i
  // (-1: was not submitted). `accepted` is in terms of the submitted tree.
  virtual void Observe(const SequenceView& sequence, const DraftTree& draft,
                       const VerifiedTree& verified, const AcceptedPath& accepted,
                       std::span<const int32_t> node_map) = 0;
};

}  // namespace tahmin
