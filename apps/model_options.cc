#include "apps/model_options.h"

#include <unistd.h>

#include <limits>

#include "apps/command.h"
#include "apps/option_values.h"
#include "apps/terminal.h"
#include "base/status_macros.h"
#include "draft/registry.h"
#include "fmt/format.h"
#include "sampling/candidates.h"
#include "tokenizer/pre_tokenizer.h"

namespace tahmin::cli {

namespace {

std::string DrafterSummaries() {
  std::string text;
  for (const DrafterRow& row : AllDrafters()) {
    if (!row.is_test_only)
      text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", row.name, row.summary);
  }
  return text;
}

}  // namespace

absl::Status CheckPreTokenizerFlag(const std::string& name) {
  const absl::Status status = PreTokenizer::Create(name).status();
  return status.ok() ? status : UsageError(fmt::format("--pre: {}", std::string(status.message())));
}

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
    command.add_option("--draft-kv-type", draft_kv_type, "KV cache of the draft model: f16 or f32")
        ->capture_default_str();
  }
  command.add_option("-t,--threads", engine.num_threads, "threads; 0: all cores")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  command
      .add_option(
          "-c,--ctx-size", engine.context_tokens,
          "context in tokens, prompt and output together; 0: what the model was trained for")
      ->capture_default_str()
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

absl::StatusOr<EngineOptions> ModelFlags::Resolve() const {
  EngineOptions options = engine;
  TAHMIN_ASSIGN_OR_RETURN(options.kv_type, ParseKvType("--kv-type", kv_type));
  TAHMIN_ASSIGN_OR_RETURN(options.draft_kv_type, ParseKvType("--draft-kv-type", draft_kv_type));
  if (pre_tokenizer.empty()) return options;
  TAHMIN_RETURN_IF_ERROR(CheckPreTokenizerFlag(pre_tokenizer));
  options.pre_tokenizer = pre_tokenizer;
  return options;
}

void DraftFlags::AddTo(CLI::App& command) {
  command.add_option(
      "--spec", spec,
      "drafter. " + DrafterSummaries() + ". Default: draft when a draft model is given, else none");
  command.add_option("--draft-max", draft.draft_max, "most draft tokens a step (K)")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  command.add_option("--lookup-min", draft.lookup_min_ngram, "lookup: shortest n-gram")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  command.add_option("--lookup-max", draft.lookup_max_ngram, "lookup: longest n-gram")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  command
      .add_option(
          "--accept", accept,
          "acceptance rule: keyed (the text of plain decoding) or rejection (p/q rule: the same "
          "distribution, not the same draw)")
      ->capture_default_str();
}

absl::StatusOr<DraftOptions> DraftFlags::Resolve(const std::string& draft_model_path,
                                                 const std::string& flag) const {
  DraftOptions options = draft;
  options.drafter = !spec.empty() ? spec : draft_model_path.empty() ? "none" : "draft";
  if (options.lookup_min_ngram > options.lookup_max_ngram) {
    return UsageError(fmt::format("--lookup-min {} is larger than --lookup-max {}",
                                  options.lookup_min_ngram, options.lookup_max_ngram));
  }
  std::string known;
  for (const DrafterRow& row : AllDrafters()) {
    if (row.is_test_only) continue;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
    if (row.name != options.drafter) continue;
    if (row.needs_draft_model && draft_model_path.empty()) {
      return UsageError(
          fmt::format("{} {} needs a draft model: add -md FILE.gguf", flag, row.name));
    }
    return options;
  }
  return UsageError(
      fmt::format("{}: expected one of {}; found '{}'", flag, known, options.drafter));
}

absl::StatusOr<AcceptanceRuleKind> DraftFlags::ResolveAcceptance() const {
  if (accept == "keyed") return AcceptanceRuleKind::kKeyed;
  if (accept == "rejection") return AcceptanceRuleKind::kRejection;
  return UsageError(fmt::format("--accept: expected keyed or rejection, found '{}'", accept));
}

void GenerationFlags::AddTo(CLI::App& command) {
  SamplingOptions& sampling = generation.sampling;
  command
      .add_option("-n,--predict", generation.max_tokens,
                  "most tokens to write; -1: until an end token or a full context")
      ->capture_default_str();
  command
      .add_option("--temp", sampling.temperature, "temperature; 0: always the most likely token")
      ->capture_default_str();
  command.add_option("--top-k", sampling.top_k, "keep the k most likely tokens; 0: off")
      ->capture_default_str();
  command
      .add_option("--top-p", sampling.top_p, "keep the most likely tokens that add up to p; 1: off")
      ->capture_default_str();
  command
      .add_option("--min-p", sampling.min_p,
                  "drop tokens below min-p times the most likely one; 0: off")
      ->capture_default_str();
  command
      .add_option("--repeat-penalty", sampling.repeat_penalty,
                  "divides the logits of recent tokens; 1: off")
      ->capture_default_str();
  command
      .add_option("--frequency-penalty", sampling.frequency_penalty,
                  "subtracted once for each occurrence")
      ->capture_default_str();
  command
      .add_option("--presence-penalty", sampling.presence_penalty,
                  "subtracted once for tokens that occur")
      ->capture_default_str();
  command
      .add_option("--repeat-last-n", sampling.penalty_window,
                  "tokens, prompt included, that the penalties look at; -1: all, 0: none")
      ->capture_default_str();
  // One value each: a text such as "[a,b]" is no list, and the next word no second value.
  command
      .add_option("--logit-bias", logit_bias,
                  "ID=VALUE, added to a token's logit; -inf bans it (repeatable)")
      ->allow_extra_args(false);
  seed_option = command.add_option(
      "--seed", seed, "seed of the draws; a random one is chosen and printed unless given");
  command.add_option("--stop", generation.stop, "stop string, not part of the text (repeatable)")
      ->allow_extra_args(false);
  command.add_flag("--ignore-eos", generation.ignore_end_tokens, "never draw an end token");
  command
      .add_option("--logprobs", generation.num_logprobs,
                  "log-probabilities of the n most likely tokens with every token (needs --json)")
      ->capture_default_str();
}

absl::StatusOr<GenerationOptions> GenerationFlags::Resolve() const {
  GenerationOptions options = generation;
  for (const std::string& text : logit_bias) {
    TAHMIN_ASSIGN_OR_RETURN(auto bias, ParseBias(text));
    options.sampling.logit_bias.push_back(bias);
  }
  if (seed_option->count() > 0) {
    TAHMIN_ASSIGN_OR_RETURN(options.sampling.seed, ParseSeed(seed));
  }
  if (options.max_tokens < -1 || options.max_tokens == 0) {
    return UsageError(fmt::format("-n: expected -1 or at least 1, found {}", options.max_tokens));
  }
  for (const std::string& stop : options.stop) {
    if (stop.empty()) return UsageError("--stop: expected a text, found an empty one");
  }
  if (options.num_logprobs < 0) {
    return UsageError(
        fmt::format("--logprobs: expected 0 or more, found {}", options.num_logprobs));
  }
  // What needs no model is refused before one is loaded; the ids of biases are checked after that.
  TAHMIN_RETURN_IF_ERROR(
      ValidateSamplingOptions(options.sampling, std::numeric_limits<int32_t>::max()));
  return options;
}

void PromptFlags::AddTo(CLI::App& command) {
  prompt_option = command.add_option("-p,--prompt", prompt, "the prompt, exactly these bytes");
  file_option = command.add_option(
      "-f,--file", prompt_file,
      "file that holds the prompt; no newline is stripped. Without -p and -f: stdin");
  file_option->type_name("FILE");
  prompt_option->excludes(file_option);
}

absl::StatusOr<std::string> PromptFlags::Read() const {
  if (prompt_option->count() > 0) return prompt;
  if (file_option->count() > 0) return ReadFile(prompt_file);
  if (isatty(STDIN_FILENO) == 1) {
    return UsageError("no prompt: give -p TEXT or -f FILE, or pipe it in");
  }
  return ReadStandardInput();
}

absl::StatusOr<std::unique_ptr<Engine>> LoadEngine(const EngineOptions& options, bool print_plan) {
  if (print_plan) {
    TAHMIN_ASSIGN_OR_RETURN(const MemoryPlan plan, Engine::Plan(options));
    PrintMemoryPlan(plan);
  }
  return Engine::Create(options, [](std::string_view what, uint64_t done, uint64_t total) {
    ShowProgress(fmt::format("loading {}", what), done, total);
  });
}

std::string DumpJson(const nlohmann::json& object) {
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

nlohmann::json StatsToJson(const GenerationStats& stats) {
  return {{"tokens_per_second", stats.TokensPerSecond()},
          {"prefill_ms", stats.prefill_ms},
          {"draft_ms", stats.draft_ms},
          {"verify_ms", stats.verify_ms},
          {"decode_ms", stats.decode_ms},
          {"total_ms", stats.total_ms},
          {"ttft_ms", stats.ttft_ms},
          {"prompt_tokens", stats.prompt_tokens},
          {"cached_prompt_tokens", stats.cached_prompt_tokens},
          {"generated_tokens", stats.generated_tokens},
          {"steps", stats.steps},
          {"drafted", stats.drafted},
          {"tested", stats.tested},
          {"accepted", stats.accepted},
          {"cut", stats.cut},
          {"acceptance_rate", stats.AcceptanceRate()},
          {"acceptance_by_depth", stats.AcceptanceByDepth()},
          {"tested_by_depth", stats.tested_by_depth},
          {"tokens_per_step", stats.TokensPerStep()}};
}

}  // namespace tahmin::cli
