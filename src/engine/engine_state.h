// What an Engine owns. Private to src/engine.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "control/adaptive.h"
#include "draft/datastore.h"
#include "draft/drafter.h"
#include "draft/registry.h"
#include "draft/suffix_store.h"
#include "engine/step_costs.h"
#include "gguf/gguf_file.h"
#include "kv/kv_cache.h"
#include "model/model.h"
#include "tahmin/engine.h"
#include "tokenizer/tokenizer.h"

namespace tahmin {

// The drafters of the last request and what they were made for: they go on in a chat.
struct DraftersInUse {
  std::vector<const DrafterRow*> rows;
  std::vector<std::unique_ptr<Drafter>> drafters;
  std::unique_ptr<Controller> fixed;  // null where as much is drafted as pays
  DraftOptions options;
  std::vector<int32_t> script;

  void Clear() { *this = {}; }
};

// A controller that adapts, and what it was made for. What it learns serves later requests.
struct AdaptiveInUse {
  std::unique_ptr<AdaptiveController> controller;
  std::vector<const DrafterRow*> rows;
  int32_t draft_max = 0, draft_width = 0;

  bool IsFor(const std::vector<const DrafterRow*>& wanted_rows, const DraftOptions& wanted) const {
    return rows == wanted_rows && draft_max == wanted.draft_max &&
           draft_width == wanted.draft_width;
  }
};

// Whether the controller of "auto" decides how much is drafted.
bool IsAdaptive(const DraftOptions& draft);

struct Engine::State {
  EngineOptions options;
  int64_t context_tokens = 0;
  int32_t prefill_chunk = 0;
  std::unique_ptr<ThreadPool> pool;

  std::shared_ptr<const GgufFile> file;
  std::unique_ptr<Tokenizer> tokenizer;
  std::shared_ptr<const Model> model;
  int32_t valid_vocab_size = 0;
  std::unique_ptr<KvCache> cache;
  int32_t kv_handle = -1;
  std::unique_ptr<ForwardScratch> scratch;  // null after a change of threads: made anew on demand

  std::shared_ptr<const GgufFile> draft_file;
  std::shared_ptr<const Model> draft_model;  // the target itself when both paths name one file
  int32_t draft_valid_vocab_size = 0;        // ids that both vocabularies know

  std::unique_ptr<Datastore> datastore;       // null: none given
  std::unique_ptr<SuffixStore> suffix_store;  // null: none kept

  std::vector<int32_t> cached_tokens;  // those whose keys and values the cache holds
  DraftersInUse in_use;
  std::vector<AdaptiveInUse> adaptive;  // a few, the last used first
  std::optional<StepCosts> step_costs;  // known when the last of them was made

  // Of the draft model; never more than the target's.
  int64_t DraftContextTokens() const;
  // Scratch for `rows` rows in a pass and `logit_rows` rows of logits; keeps what is large enough.
  absl::Status EnsureScratch(int32_t rows, int32_t logit_rows);
  // Opens the datastore and the suffix store that the options name.
  absl::Status LoadStores();
  // Sets in_use, and the controller, to what serves the request. `sampling` is the effective one.
  absl::Status EnsureDrafters(const GenerationRequest& request, const SamplingOptions& sampling);
  Controller* ControllerInUse() const;
  // Brings the controller for these rows to the front of `adaptive`. The first one measures the
  // costs of a step, or reads them.
  absl::Status EnsureAdaptive(const std::vector<const DrafterRow*>& rows,
                              const DraftOptions& draft);
  // The same at load, so that the first request does not wait, where the options say which.
  absl::Status PrepareAdaptive();
  // What is known of a step's costs by now goes into step_costs.
  void LearnStepCosts();
  std::string StepCostsKey() const;
  // And to options.step_costs_path, if there is one.
  absl::Status SaveStepCosts();
};

// Draft tokens a step that any request may ask for.
constexpr int32_t kMostDraftTokens = 512;
constexpr int32_t kMostPrefillRows = 1 << 16;

// What is checked of engine options before a file is touched.
absl::Status ValidateEngineOptions(const EngineOptions& options);

// How the draft model is loaded, and whether it is the target itself: the same file, and nothing
// asked for that its own weights do not give.
struct DraftLoading {
  bool is_shared = false;
  WeightApproximation approximation = {};
};
DraftLoading PlanDraftLoading(const EngineOptions& options);

}  // namespace tahmin
