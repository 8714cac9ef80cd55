#include "engine/commit_token.h"

#include <string>
#include <utility>

#include "sampling/logprobs.h"

namespace tahmin {
namespace {

void FillLogprobs(std::span<const float> logits, int32_t num_logprobs, TokenEvent* event) {
  const double normaliser = LogSumExp(logits);
  event->logprob = static_cast<float>(logits[event->token] - normaliser);
  for (const TokenLogprob& entry : TopLogprobs(logits, num_logprobs)) {
    event->top.push_back({entry.token, entry.logprob});
  }
}

}  // namespace

bool CommitToken(StepContext& context, Sequence& sequence, int32_t token,
                 std::span<const float> logits, bool was_drafted) {
  sequence.tokens.push_back(token);
  sequence.stats.generated_tokens += 1;

  const TokenOutcome outcome =
      sequence.stop->Commit(token, context.tokenizer.TokenBytes(token, false));
  TokenEvent event{.token = token, .was_drafted = was_drafted};
  if (sequence.num_logprobs > 0) {
    FillLogprobs(logits, sequence.num_logprobs, &event);
    sequence.logprobs.push_back(event);
  }
  event.text_delta = outcome.delta;
  if (!outcome.is_part_of_output) event = {.token = -1, .text_delta = outcome.delta};
  const bool has_something_to_show = outcome.is_part_of_output || !outcome.delta.empty();
  if (context.on_token && has_something_to_show) context.on_token(event);

  const double now_ms = context.since_request.ElapsedMs();
  sequence.stats.decode_ms = now_ms - context.prefill_end_ms;
  return outcome.finish == FinishReason::kNone;
}

void FinishStream(StepContext& context, Sequence& sequence, FinishReason reason) {
  const std::string rest = sequence.stop->Finish(reason);
  if (context.on_token && !rest.empty()) context.on_token({.token = -1, .text_delta = rest});
}

}  // namespace tahmin
