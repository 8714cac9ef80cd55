#include "engine/drafter_needs.h"

#include <fmt/format.h>

namespace tahmin {

absl::Status CheckDrafterNeeds(const Drafter& drafter) {
  if (!drafter.Needs().hidden_states) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("drafter '{}' needs the hidden states of the target's verified rows; a verified "
                  "tree holds their logits only",
                  drafter.Name()));
}

}  // namespace tahmin
