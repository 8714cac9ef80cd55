#include "engine/prefill.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/status_macros.h"
#include "engine/commit_token.h"

namespace tahmin {
namespace {

// One chunk of the prompt, from the end of the committed prefix on. Logits only for the prompt's
// last row: nobody reads the others.
absl::Status PrefillChunk(StepContext& context, const Sequence& sequence, int32_t num_rows) {
  const int64_t start = context.cache.Length(sequence.kv_handle);
  TokenBatch batch;
  batch.AppendChain(sequence.kv_handle, sequence.tokens.data() + start, num_rows, false);
  batch.rows.back().wants_logits = start + num_rows == sequence.num_prompt_tokens;

  TAHMIN_RETURN_IF_ERROR(context.cache.Reserve(sequence.kv_handle, num_rows));
  context.model.Forward(batch, context.cache, context.scratch, context.pool);
  std::vector<int32_t> all_rows(num_rows);
  std::iota(all_rows.begin(), all_rows.end(), 0);
  context.cache.Commit(sequence.kv_handle, all_rows);
  return absl::OkStatus();
}

// The same rule and sampling path as every later token: an empty tree hung on the prompt's last
// row.
absl::Status DrawFirstToken(StepContext& context, Sequence& sequence) {
  const DraftTree empty_tree;
  const VerifiedTree last_row{.logits = context.scratch.logits(),
                              .vocab_size = context.model.config().vocab_size};
  TAHMIN_ASSIGN_OR_RETURN(const AcceptedPath first,
                          sequence.rule->Accept(empty_tree, last_row,
                                                {.tokens = sequence.tokens,
                                                 .seed = sequence.seed,
                                                 .step_index = sequence.step_index,
                                                 .valid_vocab_size = context.valid_vocab_size}));
  CommitToken(context, sequence, first.tokens.front(), last_row.LogitsOf(kRoot), false);
  sequence.step_index = 1;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> Prefill(StepContext& context, Sequence& sequence) {
  const int64_t total = sequence.num_prompt_tokens;
  int64_t done = context.cache.Length(sequence.kv_handle);
  Stopwatch stopwatch;
  if (context.on_prefill) context.on_prefill(done, total);
  while (done < total) {
    if (context.IsCancelled()) return false;
    const int32_t num_rows =
        static_cast<int32_t>(std::min<int64_t>(context.prefill_chunk, total - done));
    TAHMIN_RETURN_IF_ERROR(PrefillChunk(context, sequence, num_rows));
    done += num_rows;
    if (context.on_prefill) context.on_prefill(done, total);
  }
  sequence.stats.prefill_ms = stopwatch.ElapsedMs();
  context.prefill_end_ms = context.since_request.ElapsedMs();

  TAHMIN_RETURN_IF_ERROR(DrawFirstToken(context, sequence));
  sequence.stats.ttft_ms = context.since_request.ElapsedMs();
  return true;
}

}  // namespace tahmin
