#include "apps/model_options.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "apps/command.h"
#include "apps/option_values.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "tokenizer/pre_tokenizer.h"

namespace tahmin::cli {

absl::Status CheckPreTokenizerFlag(const std::string& name) {
  const absl::Status status = PreTokenizer::Create(name).status();
  return status.ok() ? status : UsageError(fmt::format("--pre: {}", std::string(status.message())));
}

namespace {

void AddDraftModelOptions(CLI::App& command, ModelFlags& flags) {
  command
      .add_option("--draft-kv-type", flags.draft_kv_type, "KV cache of the draft model: f16 or f32")
      ->capture_default_str();
  command
      .add_option(
          "--draft-repack", flags.draft_repack,
          "weights of the draft model: stored, 4bit (what is wider is quantised again while "
          "loading) or auto (4bit, unless the draft model is the target)")
      ->capture_default_str();
  command
      .add_option("--draft-head", flags.draft_head,
                  "output head of the draft model: exact, frequent (frequent tokens and those of "
                  "the text), coarse (a narrow pass picks candidates) or auto (coarse for a large "
                  "vocabulary, unless the draft model is the target)")
      ->capture_default_str();
  command
      .add_option("--draft-head-tokens", flags.engine.draft_head_tokens,
                  "frequent: tokens kept, the lowest ids; coarse: candidates; at most the "
                  "vocabulary. 0: 32768 or 64")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 24));
}

void AddStoreOptions(CLI::App& command, ModelFlags& flags) {
  command
      .add_option("--datastore", flags.engine.datastore_path,
                  "texts to draft from, for --spec rest and auto (tahmin datastore build)")
      ->type_name("FILE");
  command
      .add_option("--suffix-store", flags.engine.suffix_store_path,
                  "earlier outputs to draft from, for --spec suffix and auto: read from this file, "
                  "and written to it at the end")
      ->type_name("FILE");
  command
      .add_option("--suffix-store-mb", flags.suffix_store_mb,
                  "most memory of the earlier outputs, in MB")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
}

}  // namespace

void ModelFlags::AddTo(CLI::App& command, bool with_draft) {
  command.add_option("-m,--model", engine.model_path, "GGUF file of the target model")
      ->required()
      ->type_name("FILE");
  if (with_draft) {
    command
        .add_option("--md,--model-draft", engine.draft_model_path,
                    "GGUF file of a smaller model with the same token ids, for --spec draft "
                    "(also written -md)")
        ->type_name("FILE");
    command
        .add_option("--cd,--ctx-size-draft", engine.draft_context_tokens,
                    "context of the draft model in tokens; beyond it nothing is drafted. 0: the "
                    "target's, or what the draft model was trained for where that is less (also "
                    "written -cd)")
        ->capture_default_str()
        ->check(CLI::Range(0, 1 << 24));
    AddDraftModelOptions(command, *this);
    AddStoreOptions(command, *this);
  }
  command.add_option("-t,--threads", engine.num_threads, "threads; 0: all cores")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  command
      .add_option(
          "-c,--ctx-size", engine.context_tokens,
          "context in tokens, prompt and output together; 0: what the model was trained for. "
          "Default: 4096, or what the model was trained for where that is less")
      ->check(CLI::Range(0, 1 << 24));
  command.add_option("--kv-type", kv_type, "KV cache of the target: f16 or f32")
      ->capture_default_str();
  command.add_option("--prefill-chunk", engine.prefill_chunk, "most rows of one prefill pass")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  command.add_option("--pre", pre_tokenizer,
                     "pre-tokenizer to use in place of the one that the file names (qwen2, smollm, "
                     "llama-bpe, ...)");
}

namespace {

// Without a home nothing is kept.
std::string StepCostsPath() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/tahmin/step_costs.json";
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') return "";
  return std::string(home) + "/.cache/tahmin/step_costs.json";
}

}  // namespace

absl::StatusOr<EngineOptions> ModelFlags::Resolve() const {
  EngineOptions options = engine;
  TAHMIN_ASSIGN_OR_RETURN(options.kv_type, ParseKvType("--kv-type", kv_type));
  TAHMIN_ASSIGN_OR_RETURN(options.draft_kv_type, ParseKvType("--draft-kv-type", draft_kv_type));
  TAHMIN_ASSIGN_OR_RETURN(options.draft_repack, ParseDraftRepack(draft_repack));
  TAHMIN_ASSIGN_OR_RETURN(options.draft_head, ParseDraftHead(draft_head));
  if (options.draft_head_tokens > 0 &&
      (options.draft_head == DraftHead::kExact || options.draft_head == DraftHead::kAuto)) {
    return UsageError("--draft-head-tokens needs --draft-head frequent or --draft-head coarse");
  }
  if (!options.suffix_store_path.empty()) {
    options.suffix_store_bytes = int64_t{suffix_store_mb} << 20;
  }
  options.step_costs_path = StepCostsPath();
  if (pre_tokenizer.empty()) return options;
  TAHMIN_RETURN_IF_ERROR(CheckPreTokenizerFlag(pre_tokenizer));
  options.pre_tokenizer = pre_tokenizer;
  return options;
}

}  // namespace tahmin::cli
