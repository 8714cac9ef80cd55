// What an engine will take, from the files' headers alone, so that it can be shown before loading.
#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "base/status_macros.h"
#include "draft/draft_model.h"
#include "draft/drafter_list.h"
#include "engine/engine_state.h"

namespace tahmin {
namespace {

// The program, its shared libraries and the smaller buffers of a request.
constexpr uint64_t kProgramBytes = uint64_t{14} << 20;

uint64_t KvBytes(const ModelConfig& config, KvType type, int64_t tokens) {
  const KvShape shape{.num_layers = config.num_layers,
                      .num_kv_heads = config.num_kv_heads,
                      .head_dim = config.head_dim,
                      .type = type};
  return shape.BytesOfSequence(tokens);
}

// Token texts, hash maps from text to id, and the merges, with the usual overhead of small strings.
uint64_t TokenizerBytes(const GgufFile& file) {
  constexpr uint64_t kBytesPerToken = 150, kBytesPerMerge = 60;
  uint64_t bytes = 0;
  if (const GgufEntry* tokens = file.FindEntry("tokenizer.ggml.tokens")) {
    bytes += tokens->num_elements * kBytesPerToken;
  }
  if (const GgufEntry* merges = file.FindEntry("tokenizer.ggml.merges")) {
    bytes += merges->num_elements * kBytesPerMerge;
  }
  return bytes;
}

void AddRow(MemoryPlan* plan, std::string name, uint64_t bytes) {
  plan->rows.push_back({std::move(name), bytes});
  plan->total_bytes += bytes;
}

}  // namespace

absl::StatusOr<MemoryPlan> Engine::Plan(const EngineOptions& options) {
  TAHMIN_RETURN_IF_ERROR(ValidateEngineOptions(options));
  const int32_t num_threads =
      options.num_threads > 0
          ? options.num_threads
          : static_cast<int32_t>(std::max(1u, std::thread::hardware_concurrency()));
  MemoryPlan plan;

  TAHMIN_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> file, GgufFile::Open(options.model_path));
  TAHMIN_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(*file));
  TAHMIN_ASSIGN_OR_RETURN(const size_t weight_bytes, Model::PlannedWeightBytes(*file));
  const int64_t context_tokens =
      options.context_tokens > 0 ? options.context_tokens : config.trained_context;
  const int32_t verify_rows = options.draft.draft_max + 1;
  AddRow(&plan, "target weights", weight_bytes);
  AddRow(&plan, "target KV cache", KvBytes(config, options.kv_type, context_tokens));
  AddRow(&plan, "target scratch",
         Model::ScratchBytes(config, std::max(options.prefill_chunk, verify_rows), verify_rows,
                             num_threads));

  TAHMIN_ASSIGN_OR_RETURN(
      const auto drafters,
      ParseDrafterList(options.draft.drafter, {.has_draft_model = !options.draft_model_path.empty(),
                                               .has_datastore = !options.datastore_path.empty()}));
  uint64_t table_bytes = 0;
  for (const DrafterRow* row : drafters) {
    if (row->table_bytes != nullptr) {
      table_bytes += row->table_bytes(config.vocab_size, context_tokens);
    }
  }
  if (table_bytes > 0) AddRow(&plan, "drafters' tables", table_bytes);
  if (options.suffix_store_bytes > 0) {
    AddRow(&plan, "suffix store (at most)", static_cast<uint64_t>(options.suffix_store_bytes));
  }
  if (!options.draft_model_path.empty()) {
    TAHMIN_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> draft_file,
                            GgufFile::Open(options.draft_model_path));
    TAHMIN_ASSIGN_OR_RETURN(const ModelConfig draft_config, ReadModelConfig(*draft_file));
    const DraftLoading loading = PlanDraftLoading(options);
    size_t draft_weight_bytes = 0;
    if (!loading.is_shared) {
      TAHMIN_ASSIGN_OR_RETURN(draft_weight_bytes,
                              Model::PlannedWeightBytes(*draft_file, loading.approximation));
    }
    const int64_t draft_context =
        options.draft_context_tokens > 0
            ? std::min<int64_t>(options.draft_context_tokens, context_tokens)
            : context_tokens;
    AddRow(&plan, loading.is_shared ? "draft weights (the target's)" : "draft weights",
           draft_weight_bytes);
    AddRow(&plan, "draft KV cache", KvBytes(draft_config, options.draft_kv_type, draft_context));
    const auto [rows, logit_rows] =
        DraftScratchShape::Of(options.prefill_chunk, options.draft.draft_width);
    AddRow(&plan, "draft scratch",
           Model::ScratchBytes(draft_config, rows, logit_rows, num_threads, loading.approximation));
  }
  AddRow(&plan, "tokenizer", TokenizerBytes(*file));
  AddRow(&plan, "program", kProgramBytes);
  return plan;
}

}  // namespace tahmin
