#include "tahmin/engine.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "draft/registry.h"
#include "engine/drafter_needs.h"
#include "engine/engine_state.h"

namespace tahmin {
namespace {

int32_t ResolveThreads(int32_t num_threads) {
  if (num_threads > 0) return num_threads;
  return static_cast<int32_t>(std::max(1u, std::thread::hardware_concurrency()));
}

absl::Status WithPath(const absl::Status& status, const std::string& what) {
  return absl::Status(status.code(), fmt::format("{}: {}", what, std::string(status.message())));
}

absl::StatusOr<std::shared_ptr<const GgufFile>> OpenFile(const std::string& path) {
  TAHMIN_ASSIGN_OR_RETURN(std::unique_ptr<GgufFile> file, GgufFile::Open(path));
  return std::shared_ptr<const GgufFile>(std::move(file));
}

absl::StatusOr<std::shared_ptr<const Model>> LoadModel(const std::shared_ptr<const GgufFile>& file,
                                                       std::string_view what,
                                                       const WeightApproximation& approximation,
                                                       const Engine::LoadProgress& progress,
                                                       ThreadPool& pool) {
  ModelLoadOptions load_options{.approximation = approximation};
  if (progress) {
    load_options.progress = [&progress, what](uint64_t done, uint64_t total) {
      progress(what, done, total);
    };
  }
  auto model = Model::Load(file, load_options, pool);
  if (!model.ok()) return WithPath(model.status(), file->path());
  return std::shared_ptr<const Model>(std::move(model).value());
}

}  // namespace

absl::Status ValidateEngineOptions(const EngineOptions& options) {
  if (options.model_path.empty()) return absl::InvalidArgumentError("no model file is given");
  if (options.num_threads < 0) {
    return absl::InvalidArgumentError(
        fmt::format("num_threads is {}; expected 0 (all cores) or more", options.num_threads));
  }
  if (options.context_tokens < 0 || options.context_tokens == 1) {
    return absl::InvalidArgumentError(fmt::format(
        "context_tokens is {}; expected 0 (what the model was trained for) or at least 2",
        options.context_tokens));
  }
  if (options.draft_context_tokens < 0) {
    return absl::InvalidArgumentError(
        fmt::format("draft_context_tokens is {}; expected 0 (the target's) or more",
                    options.draft_context_tokens));
  }
  if (options.draft_head_tokens < 0) {
    return absl::InvalidArgumentError(fmt::format(
        "draft_head_tokens is {}; expected 0 (a good number) or more", options.draft_head_tokens));
  }
  if (options.prefill_chunk < 1 || options.prefill_chunk > kMostPrefillRows) {
    return absl::InvalidArgumentError(fmt::format("prefill_chunk is {}; expected 1 to {}",
                                                  options.prefill_chunk, kMostPrefillRows));
  }
  if (options.draft.draft_max < 0 || options.draft.draft_max > kMostDraftTokens) {
    return absl::InvalidArgumentError(fmt::format("draft_max is {}; expected 0 to {}",
                                                  options.draft.draft_max, kMostDraftTokens));
  }
  return absl::OkStatus();
}

DraftLoading PlanDraftLoading(const EngineOptions& options) {
  std::error_code ignored;
  const bool is_target =
      std::filesystem::equivalent(options.draft_model_path, options.model_path, ignored);
  const DraftRepack repack = options.draft_repack;
  const DraftHead head = options.draft_head;
  DraftLoading loading;
  loading.approximation.to_four_bits =
      repack == DraftRepack::k4Bit || (repack == DraftRepack::kAuto && !is_target);
  loading.approximation.head = is_target && head == DraftHead::kAuto ? DraftHead::kExact : head;
  loading.approximation.head_tokens = options.draft_head_tokens;
  loading.is_shared = is_target && loading.approximation.IsExact();
  return loading;
}

Engine::Engine() : state_(std::make_unique<State>()) {}
Engine::~Engine() {
  // The costs are a cache: one that cannot be written is measured again.
  state_->SaveStepCosts().IgnoreError();
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options,
                                                       const LoadProgress& progress) {
  TAHMIN_RETURN_IF_ERROR(ValidateEngineOptions(options));
  std::unique_ptr<Engine> engine(new Engine());
  State& state = *engine->state_;
  state.options = options;
  state.prefill_chunk = options.prefill_chunk;
  state.pool = std::make_unique<ThreadPool>(ResolveThreads(options.num_threads));

  // Everything that can be refused cheaply comes before the weights.
  TAHMIN_ASSIGN_OR_RETURN(state.file, OpenFile(options.model_path));
  TAHMIN_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(*state.file));
  TAHMIN_ASSIGN_OR_RETURN(state.tokenizer, Tokenizer::Create(*state.file, options.pre_tokenizer));
  state.valid_vocab_size = std::min(state.tokenizer->vocab_size(), config.vocab_size);
  state.context_tokens =
      options.context_tokens > 0 ? options.context_tokens : config.trained_context;
  if (state.context_tokens < 2) {
    return absl::InvalidArgumentError(
        fmt::format("{}: no usable context length ({})", options.model_path, state.context_tokens));
  }
  const bool has_draft = !options.draft_model_path.empty();
  if (has_draft) {
    TAHMIN_ASSIGN_OR_RETURN(state.draft_file, OpenFile(options.draft_model_path));
    TAHMIN_ASSIGN_OR_RETURN(const ModelConfig draft_config, ReadModelConfig(*state.draft_file));
    TAHMIN_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> draft_tokenizer,
                            Tokenizer::Create(*state.draft_file, options.pre_tokenizer));
    TAHMIN_RETURN_IF_ERROR(CheckSameVocabulary(*state.tokenizer, *draft_tokenizer));
    state.draft_valid_vocab_size =
        std::min({state.valid_vocab_size, draft_tokenizer->vocab_size(), draft_config.vocab_size});
  }

  TAHMIN_RETURN_IF_ERROR(state.LoadStores());
  TAHMIN_ASSIGN_OR_RETURN(state.model, LoadModel(state.file, "target", {}, progress, *state.pool));
  state.cache = std::make_unique<KvCache>(state.model->MakeKvShape(options.kv_type));
  TAHMIN_ASSIGN_OR_RETURN(state.kv_handle, state.cache->AddSequence(state.context_tokens));
  TAHMIN_RETURN_IF_ERROR(state.EnsureScratch(
      std::max(options.prefill_chunk, options.draft.draft_max + 1), options.draft.draft_max + 1));
  const DraftLoading loading = PlanDraftLoading(options);
  if (loading.is_shared) {
    state.draft_model = state.model;
  } else if (has_draft) {
    TAHMIN_ASSIGN_OR_RETURN(
        state.draft_model,
        LoadModel(state.draft_file, "draft", loading.approximation, progress, *state.pool));
  }
  TAHMIN_RETURN_IF_ERROR(state.PrepareAdaptive());
  return engine;
}

int64_t Engine::State::DraftContextTokens() const {
  if (options.draft_context_tokens == 0) return context_tokens;
  return std::min<int64_t>(options.draft_context_tokens, context_tokens);
}

absl::Status Engine::State::EnsureScratch(int32_t rows, int32_t logit_rows) {
  if (scratch != nullptr && scratch->max_rows() >= rows &&
      scratch->max_logit_rows() >= logit_rows) {
    return absl::OkStatus();
  }
  if (scratch != nullptr) {
    rows = std::max(rows, scratch->max_rows());
    logit_rows = std::max(logit_rows, scratch->max_logit_rows());
  }
  TAHMIN_ASSIGN_OR_RETURN(scratch, model->CreateScratch(rows, logit_rows, *pool));
  return absl::OkStatus();
}

const Tokenizer& Engine::tokenizer() const { return *state_->tokenizer; }
const Model& Engine::model() const { return *state_->model; }
const Model* Engine::draft_model() const { return state_->draft_model.get(); }
bool Engine::has_datastore() const { return state_->datastore != nullptr; }
const GgufFile& Engine::file() const { return *state_->file; }
int64_t Engine::context_tokens() const { return state_->context_tokens; }
int64_t Engine::draft_context_tokens() const { return state_->DraftContextTokens(); }
int32_t Engine::num_threads() const { return state_->pool->num_threads(); }
ThreadPool& Engine::pool() { return *state_->pool; }

void Engine::SetNumThreads(int32_t num_threads) {
  const int32_t resolved = ResolveThreads(num_threads);
  if (resolved == state_->pool->num_threads()) return;
  // Scratch and drafter hold buffers per thread of the old pool.
  state_->in_use.Clear();
  state_->adaptive.clear();  // the costs of a step are those of the old pool
  state_->step_costs.reset();
  state_->scratch.reset();
  state_->pool = std::make_unique<ThreadPool>(resolved);
}

int32_t Engine::prefill_chunk() const { return state_->prefill_chunk; }

void Engine::SetPrefillChunk(int32_t rows) {
  state_->prefill_chunk = std::clamp(rows, 1, kMostPrefillRows);
  state_->in_use.Clear();
}

}  // namespace tahmin
