#include "engine/draft_phase.h"

#include <algorithm>
#include <utility>

#include "base/stopwatch.h"
#include "verify/tree_layout.h"

namespace tahmin {
namespace {

// A path of n draft tokens emits n + 1, so the deepest useful draft is one less than the tokens
// that may still be written; root and nodes together need slots.
struct Room {
  int32_t max_depth = 0, max_tokens = 0;
};

Room RoomFor(const DraftLimits& limits, const Sequence& sequence) {
  const int64_t num_tokens = static_cast<int64_t>(sequence.tokens.size());
  const int64_t deepest = std::max<int64_t>(0, sequence.token_limit - num_tokens - 1);
  const int64_t free_slots = std::max<int64_t>(0, limits.context_tokens - num_tokens);
  const int64_t most = deepest == 0 ? 0 : std::min<int64_t>(free_slots, limits.max_tokens);
  return {.max_depth = static_cast<int32_t>(deepest), .max_tokens = static_cast<int32_t>(most)};
}

// The draft model holds every token so far before it guesses the next one.
bool IsDraftContextFull(const DraftLimits& limits, const Sequence& sequence) {
  return limits.draft_context_tokens > 0 &&
         static_cast<int64_t>(sequence.tokens.size()) > limits.draft_context_tokens;
}

}  // namespace

DraftPhase::DraftPhase(const DraftLimits& limits, Sequence& sequence, StepStats* step) {
  const Room room = RoomFor(limits, sequence);
  sequence.controller->BeginStep(
      {.num_tokens = static_cast<int64_t>(sequence.tokens.size()), .tokens_left = room.max_depth});
  step->drafters.resize(sequence.drafters.size());
  proposals_.resize(sequence.drafters.size());
  for (size_t i = 0; i < sequence.drafters.size(); ++i) {
    const int32_t drafter = static_cast<int32_t>(i);
    DraftBudget budget = sequence.controller->BudgetFor(drafter, fused_.tree());
    budget.max_tokens = std::min(budget.max_tokens, room.max_tokens);
    budget.max_depth = std::min(budget.max_depth, room.max_depth);
    const bool has_own_context = sequence.drafters[i].has_own_context;
    if (budget.max_tokens > 0 && has_own_context && IsDraftContextFull(limits, sequence)) {
      sequence.stats.draft_context_full_steps += 1;
    }
    Proposal& proposal = proposals_[i];
    DrafterStep& counts = step->drafters[i];
    if (budget.max_tokens > 0) {
      const Stopwatch watch;
      proposal.own = sequence.drafters[i].drafter->Draft(sequence.View(), budget);
      counts.was_called = true;
      counts.draft_ms = watch.ElapsedMs();
    }
    ClippedTree clipped =
        ClipTree(proposal.own, budget.max_tokens, budget.max_depth, limits.valid_vocab_size);
    proposal.clipped_node = std::move(clipped.node_map);
    proposal.clipped = std::move(clipped.tree);
    counts.num_proposed = proposal.clipped.size();
    counts.num_levels = proposal.clipped.Depth();
    fused_.Add(proposal.clipped, sequence.controller->AcceptanceOf(drafter, proposal.clipped));
  }
  fused_.Keep(sequence.controller->Select(fused_.tree(), room.max_tokens));
  for (int32_t node = 0; node < fused_.tree().size(); ++node) {
    step->drafters[fused_.DrafterOf(node)].num_submitted += 1;
  }
}

void DraftPhase::CountOutcomes(const AcceptedPath& path, StepStats* step) const {
  for (int32_t node : path.nodes) step->drafters[fused_.DrafterOf(node)].num_accepted += 1;
  for (size_t i = 0; i < proposals_.size(); ++i) {
    const DraftTree& own = proposals_[i].clipped;
    int32_t parent = kRoot;
    for (size_t depth = 0; depth < path.tokens.size(); ++depth) {
      int32_t hit = kRoot;
      for (int32_t node = parent + 1; node < own.size(); ++node) {
        if (own.nodes[node].parent != parent) continue;
        const bool is_accepted = own.nodes[node].token == path.tokens[depth];
        if (is_accepted) hit = node;
        step->drafters[i].outcomes.push_back({.depth = static_cast<int32_t>(depth) + 1,
                                              .confidence = own.nodes[node].confidence,
                                              .is_accepted = is_accepted});
      }
      if (hit == kRoot) break;
      parent = hit;
    }
  }
}

std::vector<int32_t> DraftPhase::NodeMapOf(int32_t drafter) const {
  const Proposal& proposal = proposals_[drafter];
  const std::span<const int32_t> merged = fused_.NodeMap(drafter);
  std::vector<int32_t> map(proposal.own.nodes.size(), -1);
  for (size_t i = 0; i < map.size(); ++i) {
    if (proposal.clipped_node[i] >= 0) map[i] = merged[proposal.clipped_node[i]];
  }
  return map;
}

void DraftPhase::Observe(Sequence& sequence, const VerifiedTree& verified, const AcceptedPath& path,
                         StepStats* step) const {
  for (size_t i = 0; i < proposals_.size(); ++i) {
    const Stopwatch watch;
    sequence.drafters[i].drafter->Observe(sequence.View(), proposals_[i].own, verified, path,
                                          NodeMapOf(static_cast<int32_t>(i)));
    step->drafters[i].observe_ms = watch.ElapsedMs();
  }
}

}  // namespace tahmin
