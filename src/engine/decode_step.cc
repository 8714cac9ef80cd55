// The spine of the engine: the only file that sees all stages. Read it from the bottom up.
#include "engine/decode_step.h"

#include <algorithm>
#include <vector>

#include "base/status_macros.h"
#include "engine/commit_token.h"
#include "step/step_stats.h"
#include "verify/tree_layout.h"
#include "verify/verifier.h"

namespace tahmin {
namespace {

// A path of n draft tokens emits n + 1, so the deepest useful draft is one less than the tokens
// that may still be written; root and nodes together need slots.
DraftBudget FitToRoom(DraftBudget budget, const StepContext& context, const Sequence& sequence) {
  const int64_t num_tokens = static_cast<int64_t>(sequence.tokens.size());
  const int64_t deepest = std::max<int64_t>(0, sequence.token_limit - num_tokens - 1);
  const int64_t free_slots = std::max<int64_t>(0, context.context_tokens - num_tokens);
  budget.max_depth = static_cast<int32_t>(std::min<int64_t>(budget.max_depth, deepest));
  budget.max_tokens = static_cast<int32_t>(std::min<int64_t>(budget.max_tokens, free_slots));
  if (budget.max_depth == 0) budget.max_tokens = 0;
  return budget;
}

// Commits the path's tokens in order until one of them ends generation. The KV cache keeps the root
// and every committed token but the last, which is the next root.
int32_t CommitPath(StepContext& context, Sequence& sequence, const VerifiedTree& verified,
                   const AcceptedPath& path) {
  const int32_t num_accepted = static_cast<int32_t>(path.nodes.size());
  std::vector<int32_t> kept_slots;
  int32_t parent = kRoot;
  for (int32_t i = 0; i <= num_accepted; ++i) {
    kept_slots.push_back(1 + parent);
    const bool was_drafted = i < num_accepted;
    const bool goes_on =
        CommitToken(context, sequence, path.tokens[i], verified.LogitsOf(parent), was_drafted);
    if (!goes_on || !was_drafted) break;
    parent = path.nodes[i];
  }
  context.cache.Commit(sequence.kv_handle, kept_slots);
  return static_cast<int32_t>(kept_slots.size());
}

// The draft model holds every token so far before it guesses the next one.
bool IsDraftContextFull(const StepContext& context, const Sequence& sequence) {
  return context.draft_context_tokens > 0 &&
         static_cast<int64_t>(sequence.tokens.size()) > context.draft_context_tokens;
}

void CountByDepth(std::vector<int64_t>* counts, int32_t depth) {
  if (static_cast<int32_t>(counts->size()) < depth) counts->resize(depth);
  for (int32_t i = 0; i < depth; ++i) (*counts)[i] += 1;
}

void AddUp(const StepStats& step, GenerationStats* stats) {
  stats->steps += 1;
  stats->drafted += step.num_drafted;
  stats->tested += step.num_tested;
  stats->accepted += step.num_accepted;
  stats->cut += step.num_accepted + 1 - step.num_committed;
  stats->draft_ms += step.draft_ms;
  stats->verify_ms += step.verify_ms;
  CountByDepth(&stats->tested_by_depth, step.num_tested);
  CountByDepth(&stats->accepted_by_depth, step.num_accepted);
  // A depth that was tested and never accepted is a zero, not a missing entry.
  stats->accepted_by_depth.resize(stats->tested_by_depth.size());
}

}  // namespace

absl::Status DecodeStep(StepContext& context, Sequence& sequence) {
  StepStats step;
  const Stopwatch step_watch;

  // Plan: the budget is fixed before the first draft token is drawn.
  const DraftBudget budget = FitToRoom(sequence.controller->Plan(), context, sequence);

  // Draft, and cut what may not be submitted.
  const Stopwatch draft_watch;
  DraftTree proposed;
  if (budget.max_tokens > 0 && IsDraftContextFull(context, sequence)) {
    sequence.stats.draft_context_full_steps += 1;
  }
  if (budget.max_tokens > 0) proposed = sequence.drafter->Draft(sequence.View(), budget);
  const ClippedTree draft =
      ClipTree(proposed, budget.max_tokens, budget.max_depth, context.valid_vocab_size);
  step.num_drafted = draft.tree.size();
  step.draft_ms = draft_watch.ElapsedMs();

  // Verify: one pass of the target over the root token and the tree.
  const Stopwatch verify_watch;
  const PendingSlots roll_back_on_error(context.cache, sequence.kv_handle);
  Verifier verifier(context.model, context.cache, context.scratch, context.pool);
  TAHMIN_ASSIGN_OR_RETURN(const VerifiedTree verified,
                          verifier.Verify(sequence.kv_handle, sequence.root_token(), draft.tree));
  step.verify_ms = verify_watch.ElapsedMs();

  // Accept.
  TAHMIN_ASSIGN_OR_RETURN(const AcceptedPath path,
                          sequence.rule->Accept(draft.tree, verified,
                                                {.tokens = sequence.tokens,
                                                 .seed = sequence.seed,
                                                 .step_index = sequence.step_index,
                                                 .valid_vocab_size = context.valid_vocab_size}));
  step.num_tested = path.num_tested;
  step.num_accepted = static_cast<int32_t>(path.nodes.size());

  // Commit and stream, one token at a time.
  step.num_committed = CommitPath(context, sequence, verified, path);
  sequence.step_index += 1;
  if (!sequence.finished()) {
    const Stopwatch observe_watch;
    sequence.drafter->Observe(sequence.View(), proposed, verified, path, draft.node_map);
    step.draft_ms += observe_watch.ElapsedMs();
  }

  // Measure.
  step.total_ms = step_watch.ElapsedMs();
  sequence.controller->Update(step);
  AddUp(step, &sequence.stats);
  return absl::OkStatus();
}

}  // namespace tahmin
