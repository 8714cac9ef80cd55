// The engine: a target model, optionally a draft model, and the loop that writes text with them.
// The ids that it emits are the same whatever the drafter, draft length, thread count or prefill
// chunking (keyed acceptance rule; docs/exactness.md). One request at a time; not thread-safe
// except for Cancel flags.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tahmin/metrics.h"
#include "tahmin/options.h"

namespace tahmin {

class Drafter;
class Model;
class Tokenizer;
class GgufFile;
class ChatTemplate;
class ThreadPool;

struct LogprobEntry {
  int32_t token = 0;
  float logprob = 0;
};

// One committed token, as it is streamed. All text deltas of a request join to its text.
struct TokenEvent {
  int32_t token = 0;  // -1: no token, only text that was held back and is free now that
                      // generation has ended (an end token itself is never shown)
  std::string_view text_delta =
      {};                    // may be empty (part of a character, held back for a stop string)
  bool was_drafted = false;  // an accepted draft token
  float logprob = 0;         // of this token, raw logits; only with num_logprobs > 0
  std::vector<LogprobEntry> top = {};  // num_logprobs entries
};

struct GenerationRequest {
  std::vector<int32_t> prompt_tokens;
  GenerationOptions options;
  DraftOptions draft;
  // For `replay`: prompt and output of an earlier run; for `script`: see draft/test_drafters.h.
  // Tests and audit.
  std::vector<int32_t> script_tokens;
  // Keep the KV cache of the last request and prefill only behind the common prefix (chat).
  bool reuse_cache = false;
  bool keep_output = true;  // in the suffix store, for later requests to draft from
  // Where as much is drafted as pays: what the controller is told and chooses is appended
  // (control/controller_trace.h); it can be replayed when this is the engine's first request.
  std::string* controller_trace = nullptr;
  const std::atomic<bool>* cancel = nullptr;  // checked every step and every prefill chunk
};

struct GenerationResult {
  std::string text;
  std::vector<int32_t> tokens;       // output, the end token not included
  std::vector<TokenEvent> logprobs;  // one per output token when asked for; text_delta unset
  std::string finish_reason;         // "stop", "length", "cancelled"
  uint64_t seed = 0;
  GenerationStats stats;
};

using TokenCallback = std::function<void(const TokenEvent&)>;
using PrefillProgress = std::function<void(int64_t done_tokens, int64_t total_tokens)>;

struct MemoryPlanRow {
  std::string name;  // "target weights", "target KV cache", "draft weights", ...
  uint64_t bytes = 0;
};
struct MemoryPlan {
  std::vector<MemoryPlanRow> rows;
  uint64_t total_bytes = 0;
};

class Engine {
 public:
  // Called while loading: what ("target", "draft"), bytes done, bytes in all.
  using LoadProgress = std::function<void(std::string_view what, uint64_t done, uint64_t total)>;

  // What Create will take, from the files' headers alone.
  static absl::StatusOr<MemoryPlan> Plan(const EngineOptions& options);
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineOptions& options,
                                                        const LoadProgress& progress = {});
  ~Engine();

  // INVALID_ARGUMENT for an option out of range, an empty prompt, or a prompt that leaves no room
  // for one token (with both numbers). A failed call leaves the engine usable.
  absl::StatusOr<GenerationResult> Generate(const GenerationRequest& request,
                                            const TokenCallback& on_token = {},
                                            const PrefillProgress& on_prefill = {});

  const Tokenizer& tokenizer() const;
  const Model& model() const;
  const Model* draft_model() const;  // null: none loaded
  bool has_datastore() const;
  const GgufFile& file() const;
  int64_t context_tokens() const;
  int64_t draft_context_tokens() const;  // beyond it the draft model stops drafting
  int32_t num_threads() const;
  ThreadPool& pool();
  void SetNumThreads(int32_t num_threads);  // between requests
  // Writes the earlier outputs to options.suffix_store_path; a failure leaves that file as it was.
  absl::Status SaveSuffixStore() const;
  int32_t prefill_chunk() const;
  void SetPrefillChunk(int32_t rows);  // between requests; >= 1

 private:
  Engine();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tahmin
