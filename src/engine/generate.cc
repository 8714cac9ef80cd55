// Engine::Generate: one request from its check to its result. The steps themselves are in
// decode_step.cc.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "control/controller_trace.h"
#include "draft/drafter_list.h"
#include "engine/commit_token.h"
#include "engine/decode_step.h"
#include "engine/engine_state.h"
#include "engine/prefill.h"
#include "engine/sequence.h"
#include "engine/step_context.h"
#include "sampling/candidates.h"

namespace tahmin {
namespace {

absl::Status CheckTokens(const std::vector<int32_t>& tokens, int32_t vocab_size,
                         std::string_view what) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= vocab_size) {
      return absl::InvalidArgumentError(fmt::format("{} {} is {}; ids of this model are 0 to {}",
                                                    what, i, tokens[i], vocab_size - 1));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPrompt(const GenerationRequest& request, int64_t context_tokens,
                         int32_t vocab_size) {
  const int64_t num_tokens = static_cast<int64_t>(request.prompt_tokens.size());
  if (num_tokens == 0) return absl::InvalidArgumentError("the prompt has no tokens");
  if (num_tokens >= context_tokens) {
    return absl::InvalidArgumentError(
        fmt::format("the prompt has {} tokens and the context holds {}: there is no room for one "
                    "token of text",
                    num_tokens, context_tokens));
  }
  return CheckTokens(request.prompt_tokens, vocab_size, "prompt token");
}

absl::Status CheckOptions(const GenerationRequest& request, int32_t vocab_size) {
  const GenerationOptions& options = request.options;
  TAHMIN_RETURN_IF_ERROR(ValidateSamplingOptions(options.sampling, vocab_size));
  if (options.max_tokens == 0 || options.max_tokens < -1) {
    return absl::InvalidArgumentError(
        fmt::format("max_tokens is {}; expected -1 (until the context is full) or at least 1",
                    options.max_tokens));
  }
  if (options.num_logprobs < 0 || options.num_logprobs > vocab_size) {
    return absl::InvalidArgumentError(
        fmt::format("num_logprobs is {}; expected 0 to {}", options.num_logprobs, vocab_size));
  }
  for (const std::string& stop : options.stop) {
    if (stop.empty()) return absl::InvalidArgumentError("a stop string is empty");
    if (!IsValidUtf8(stop)) {
      return absl::InvalidArgumentError("a stop string is not valid UTF-8; it could never match");
    }
  }
  TAHMIN_RETURN_IF_ERROR(CheckTokens(options.end_tokens, vocab_size, "end token"));
  if (request.draft.draft_max < 0 || request.draft.draft_max > kMostDraftTokens) {
    return absl::InvalidArgumentError(fmt::format("draft_max is {}; expected 0 to {}",
                                                  request.draft.draft_max, kMostDraftTokens));
  }
  return absl::OkStatus();
}

uint64_t RandomSeed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

// Seed filled in; ignored end tokens banned, the same way in plain and speculative decoding.
SamplingOptions EffectiveSampling(const GenerationOptions& options, const Tokenizer& tokenizer,
                                  int32_t valid_vocab_size) {
  SamplingOptions sampling = options.sampling;
  if (!sampling.seed.has_value()) sampling.seed = RandomSeed();
  if (!options.ignore_end_tokens) return sampling;
  for (int32_t token : tokenizer.special_tokens().end_of_generation) {
    if (token >= valid_vocab_size) continue;
    std::erase_if(sampling.logit_bias, [token](const auto& bias) { return bias.first == token; });
    sampling.logit_bias.emplace_back(token, -std::numeric_limits<float>::infinity());
  }
  return sampling;
}

StopConfig MakeStopConfig(const GenerationOptions& options, const Tokenizer& tokenizer,
                          int64_t max_new_tokens) {
  StopConfig config;
  config.end_tokens = options.end_tokens;
  if (!options.ignore_end_tokens) {
    const std::vector<int32_t>& ends = tokenizer.special_tokens().end_of_generation;
    config.end_tokens.insert(config.end_tokens.end(), ends.begin(), ends.end());
  }
  config.stop_strings = options.stop;
  config.max_tokens = max_new_tokens;
  return config;
}

int64_t CommonPrefix(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return in_a - a.begin();
}

// Whatever way a request ends, no tree slot stays reserved and the engine knows which tokens the
// cache holds, so the next request can go on from there.
class CacheRecord {
 public:
  CacheRecord(KvCache& cache, const Sequence& sequence, std::vector<int32_t>* cached_tokens)
      : cache_(cache), sequence_(sequence), cached_tokens_(cached_tokens) {}
  ~CacheRecord() {
    if (cache_.Reserved(sequence_.kv_handle) > 0) cache_.Rollback(sequence_.kv_handle);
    const auto begin = sequence_.tokens.begin();
    cached_tokens_->assign(begin, begin + cache_.Length(sequence_.kv_handle));
  }
  CacheRecord(const CacheRecord&) = delete;
  CacheRecord& operator=(const CacheRecord&) = delete;

 private:
  KvCache& cache_;
  const Sequence& sequence_;
  std::vector<int32_t>* cached_tokens_;
};

void BeginDrafters(Sequence& sequence) {
  sequence.controller->BeginRequest({.prompt_tokens = sequence.num_prompt_tokens,
                                     .cached_prompt_tokens = sequence.stats.cached_prompt_tokens,
                                     .prefill_ms = sequence.stats.prefill_ms});
  for (size_t i = 0; i < sequence.drafters.size(); ++i) {
    const Stopwatch watch;
    sequence.drafters[i].drafter->Begin(sequence.View());
    const double ms = watch.ElapsedMs();
    sequence.stats.draft_ms += ms;
    sequence.stats.drafters[i].draft_ms += ms;
  }
}

absl::Status Decode(StepContext& context, Sequence& sequence) {
  TAHMIN_ASSIGN_OR_RETURN(const bool has_first_token, Prefill(context, sequence));
  if (has_first_token && !sequence.finished()) {
    BeginDrafters(sequence);
  }
  while (has_first_token && !sequence.finished() && !context.IsCancelled()) {
    TAHMIN_RETURN_IF_ERROR(DecodeStep(context, sequence));
  }
  if (!sequence.finished()) FinishStream(context, sequence, FinishReason::kCancelled);
  sequence.stats.total_ms = context.since_request.ElapsedMs();
  return absl::OkStatus();
}

GenerationResult MakeResult(Sequence& sequence) {
  GenerationResult result;
  const int64_t num_output = sequence.stop->num_output_tokens();
  const auto first = sequence.tokens.begin() + sequence.num_prompt_tokens;
  result.text = sequence.stop->text();
  result.tokens.assign(first, first + num_output);
  result.logprobs = std::move(sequence.logprobs);
  if (!result.logprobs.empty()) result.logprobs.resize(num_output);
  result.finish_reason = std::string(FinishReasonName(sequence.stop->finish()));
  result.seed = sequence.seed;
  result.stats = std::move(sequence.stats);
  return result;
}

}  // namespace

absl::StatusOr<GenerationResult> Engine::Generate(const GenerationRequest& request,
                                                  const TokenCallback& on_token,
                                                  const PrefillProgress& on_prefill) {
  const Stopwatch since_request;
  State& state = *state_;
  TAHMIN_RETURN_IF_ERROR(CheckPrompt(request, state.context_tokens, state.valid_vocab_size));
  TAHMIN_RETURN_IF_ERROR(CheckOptions(request, state.valid_vocab_size));

  Sequence sequence;
  sequence.tokens = request.prompt_tokens;
  sequence.num_prompt_tokens = static_cast<int32_t>(request.prompt_tokens.size());
  sequence.kv_handle = state.kv_handle;
  sequence.sampling = EffectiveSampling(request.options, *state.tokenizer, state.valid_vocab_size);
  sequence.seed = *sequence.sampling.seed;
  sequence.acceptance = request.options.acceptance;
  sequence.num_logprobs = request.options.num_logprobs;
  const int64_t room = state.context_tokens - sequence.num_prompt_tokens;
  const int64_t max_new_tokens =
      request.options.max_tokens < 0 ? room : std::min<int64_t>(request.options.max_tokens, room);
  sequence.token_limit = sequence.num_prompt_tokens + max_new_tokens;

  const int32_t verify_rows = request.draft.draft_max + 1;
  TAHMIN_RETURN_IF_ERROR(
      state.EnsureScratch(std::max(state.prefill_chunk, verify_rows), verify_rows));
  TAHMIN_RETURN_IF_ERROR(state.EnsureDrafters(request, sequence.sampling));
  sequence.controller = state.ControllerInUse();
  std::optional<TraceRecorder> recorder;
  if (request.controller_trace != nullptr) {
    if (!IsAdaptive(request.draft)) {
      return absl::InvalidArgumentError("controller_trace: only a controller that adapts has one");
    }
    sequence.controller =
        &recorder.emplace(*state.adaptive.front().controller, request.controller_trace);
  }
  bool uses_draft_model = false;
  for (size_t i = 0; i < state.in_use.rows.size(); ++i) {
    const DrafterRow& row = *state.in_use.rows[i];
    uses_draft_model |= row.needs_draft_model;
    sequence.drafters.push_back(
        {.drafter = state.in_use.drafters[i].get(), .has_own_context = row.needs_draft_model});
    sequence.stats.drafters.emplace_back().name = row.name;
  }
  sequence.rule = MakeAcceptanceRule(sequence.acceptance, sequence.sampling);
  sequence.stop = std::make_unique<StopConditions>(
      MakeStopConfig(request.options, *state.tokenizer, max_new_tokens));

  // The last prompt token always runs again: its logits give the first token.
  const int64_t reused = request.reuse_cache
                             ? std::min<int64_t>(CommonPrefix(state.cached_tokens, sequence.tokens),
                                                 sequence.num_prompt_tokens - 1)
                             : 0;
  state.cache->Truncate(state.kv_handle, reused);
  sequence.stats.prompt_tokens = sequence.num_prompt_tokens;
  sequence.stats.cached_prompt_tokens = reused;

  StepContext context{.model = *state.model,
                      .tokenizer = *state.tokenizer,
                      .cache = *state.cache,
                      .scratch = *state.scratch,
                      .pool = *state.pool,
                      .context_tokens = state.context_tokens,
                      .draft_context_tokens = uses_draft_model ? state.DraftContextTokens() : 0,
                      .prefill_chunk = state.prefill_chunk,
                      .valid_vocab_size = state.valid_vocab_size,
                      .on_token = on_token,
                      .on_prefill = on_prefill,
                      .cancel = request.cancel,
                      .since_request = since_request};
  const CacheRecord record(*state.cache, sequence, &state.cached_tokens);
  TAHMIN_RETURN_IF_ERROR(Decode(context, sequence));
  GenerationResult result = MakeResult(sequence);
  if (state.suffix_store != nullptr && request.keep_output) state.suffix_store->Add(result.tokens);
  return result;
}

}  // namespace tahmin
