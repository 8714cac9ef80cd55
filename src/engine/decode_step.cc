// The spine of the engine: the only file that sees all stages. Read it from the bottom up.
#include "engine/decode_step.h"

#include <algorithm>
#include <vector>

#include "base/status_macros.h"
#include "engine/commit_token.h"
#include "engine/draft_phase.h"
#include "kernels/kernels.h"
#include "step/step_stats.h"
#include "verify/verifier.h"

namespace tahmin {
namespace {

DraftLimits LimitsOf(const StepContext& context) {
  return {.context_tokens = context.context_tokens,
          .draft_context_tokens = context.draft_context_tokens,
          .max_tokens = context.scratch.max_logit_rows() - 1,
          .valid_vocab_size = context.valid_vocab_size};
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

void CountByDepth(std::vector<int64_t>* counts, int32_t depth) {
  if (static_cast<int32_t>(counts->size()) < depth) counts->resize(depth);
  for (int32_t i = 0; i < depth; ++i) (*counts)[i] += 1;
}

void AddOutcomes(const DrafterStep& step, DrafterStats* stats) {
  for (const NodeOutcome& outcome : step.outcomes) {
    const auto depth = static_cast<size_t>(outcome.depth);
    if (stats->tested_by_depth.size() < depth) {
      stats->tested_by_depth.resize(depth);
      stats->accepted_by_depth.resize(depth);
    }
    stats->tested_by_depth[depth - 1] += 1;
    stats->accepted_by_depth[depth - 1] += outcome.is_accepted ? 1 : 0;
  }
}

// Of the time that this step won over plain steps, a drafter is owed what its accepted tokens stand
// for, and owes its own work and its share of the larger pass.
double WonMs(const DrafterStep& drafter, int32_t num_drafted, const Controller& controller) {
  const double plain_ms = controller.VerifyMs(0);
  if (plain_ms <= 0) return 0;
  const double extra_ms = controller.VerifyMs(num_drafted) - plain_ms;
  const double share =
      num_drafted == 0 ? 0.0 : static_cast<double>(drafter.num_submitted) / num_drafted;
  return drafter.num_accepted * plain_ms - share * extra_ms - drafter.draft_ms - drafter.observe_ms;
}

void AddUp(const StepStats& step, const Controller& controller, GenerationStats* stats) {
  stats->steps += 1;
  stats->drafted += step.num_drafted;
  stats->tested += step.num_tested;
  stats->accepted += step.num_accepted;
  stats->cut += step.num_accepted + 1 - step.num_committed;
  stats->draft_ms += step.draft_ms;
  stats->verify_ms += step.verify_ms;
  const auto num_drafted = static_cast<size_t>(step.num_drafted);
  if (stats->steps_by_drafted.size() <= num_drafted)
    stats->steps_by_drafted.resize(num_drafted + 1);
  stats->steps_by_drafted[num_drafted] += 1;
  CountByDepth(&stats->tested_by_depth, step.num_tested);
  CountByDepth(&stats->accepted_by_depth, step.num_accepted);
  // A depth that was tested and never accepted is a zero, not a missing entry.
  stats->accepted_by_depth.resize(stats->tested_by_depth.size());
  for (size_t i = 0; i < step.drafters.size(); ++i) {
    const DrafterStep& from = step.drafters[i];
    DrafterStats& to = stats->drafters[i];
    to.calls += from.was_called ? 1 : 0;
    to.proposed += from.num_proposed;
    to.drafted += from.num_submitted;
    to.accepted += from.num_accepted;
    to.draft_ms += from.draft_ms + from.observe_ms;
    to.won_ms += WonMs(from, step.num_drafted, controller);
    AddOutcomes(from, &to);
  }
}

}  // namespace

absl::Status DecodeStep(StepContext& context, Sequence& sequence) {
  StepStats step;
  const Stopwatch step_watch;

  // Plan and draft: every budget is fixed before the drafter's first token is drawn.
  step.num_tokens = static_cast<int64_t>(sequence.tokens.size());
  const Stopwatch draft_watch;
  const DraftPhase draft(LimitsOf(context), sequence, &step);
  step.num_drafted = draft.tree().size();
  step.draft_ms = draft_watch.ElapsedMs();

  // Verify: one pass of the target over the root token and the tree.
  const Stopwatch verify_watch;
  const PendingSlots roll_back_on_error(context.cache, sequence.kv_handle);
  Verifier verifier(context.model, context.cache, context.scratch, context.pool);
  TAHMIN_ASSIGN_OR_RETURN(const VerifiedTree verified,
                          verifier.Verify(sequence.kv_handle, sequence.root_token(), draft.tree()));
  step.verify_ms = verify_watch.ElapsedMs();

  // Accept.
  TAHMIN_ASSIGN_OR_RETURN(const AcceptedPath path,
                          sequence.rule->Accept(draft.tree(), verified,
                                                {.tokens = sequence.tokens,
                                                 .seed = sequence.seed,
                                                 .step_index = sequence.step_index,
                                                 .valid_vocab_size = context.valid_vocab_size}));
  step.num_tested = path.num_tested;
  step.num_accepted = static_cast<int32_t>(path.nodes.size());
  draft.CountOutcomes(path, &step);
  if (sequence.controller->WantsConfidence()) {
    step.root_confidence =
        kernels::TopProbability(verified.LogitsOf(kRoot).data(), context.valid_vocab_size);
  }

  // Commit and stream, one token at a time.
  step.num_committed = CommitPath(context, sequence, verified, path);
  sequence.step_index += 1;
  if (!sequence.finished()) {
    const Stopwatch observe_watch;
    draft.Observe(sequence, verified, path, &step);
    step.draft_ms += observe_watch.ElapsedMs();
  }

  // Measure.
  step.total_ms = step_watch.ElapsedMs();
  sequence.controller->Update(step);
  AddUp(step, *sequence.controller, &sequence.stats);
  return absl::OkStatus();
}

}  // namespace tahmin
