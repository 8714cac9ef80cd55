// What a drafter declares that it needs of the target, held against what the target gives. A
// drafter that goes without would guess from nothing, and nobody would see why.
#pragma once

#include "absl/status/status.h"
#include "draft/drafter.h"

namespace tahmin {

// FAILED_PRECONDITION, with the drafter's name, when the target cannot serve it.
absl::Status CheckDrafterNeeds(const Drafter& drafter);

}  // namespace tahmin
