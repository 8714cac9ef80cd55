#include "engine/drafter_needs.h"

#include <string>

#include "draft/none.h"
#include "gtest/gtest.h"

namespace tahmin {
namespace {

class ReadsHiddenStates : public Drafter {
 public:
  std::string_view Name() const override { return "reads-hidden-states"; }
  DrafterNeeds Needs() const override { return {.hidden_states = true}; }
  void Begin(const SequenceView&) override {}
  DraftTree Draft(const SequenceView&, const DraftBudget&) override { return {}; }
  void Observe(const SequenceView&, const DraftTree&, const VerifiedTree&, const AcceptedPath&,
               std::span<const int32_t>) override {}
};

TEST(DrafterNeeds, WhatTheTargetDoesNotGiveIsRefusedByName) {
  const absl::Status status = CheckDrafterNeeds(ReadsHiddenStates());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("reads-hidden-states"), std::string::npos) << status;
  EXPECT_NE(status.message().find("hidden states"), std::string::npos) << status;
}

TEST(DrafterNeeds, DraftersWithoutNeedsAreServed) {
  EXPECT_TRUE(CheckDrafterNeeds(*MakeNone()).ok());
}

}  // namespace
}  // namespace tahmin
