#include "apps/option_effects.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "fmt/format.h"
#include "gguf/gguf_file.h"
#include "tokenizer/tokenizer.h"

namespace tahmin::cli {

bool IsGiven(const CLI::App& command, const std::string& option) {
  const CLI::Option* found = command.get_option_no_throw(option);
  return found != nullptr && found->count() > 0;
}

void NoteNoEffect(const CLI::App& command, std::initializer_list<const char*> options,
                  std::string_view reason) {
  std::string names;
  int count = 0;
  for (const char* option : options) {
    if (!IsGiven(command, option)) continue;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", option);
    ++count;
  }
  if (count == 0) return;
  fmt::print(stderr, "tahmin: note: {} {} no effect: {}\n", names, count == 1 ? "has" : "have",
             reason);
}

namespace {

// Whether a list of drafters ("draft+suffix") holds that one.
bool Names(const std::string& list, const std::string& name) {
  return ("+" + list + "+").find("+" + name + "+") != std::string::npos;
}

void NoteDraftOptions(const CLI::App& command, const GenerationRequest& request) {
  const std::string& drafter = request.draft.drafter;
  const std::string drafter_is = fmt::format("the drafter is {}", drafter);
  const auto uses = [&drafter](const std::string& name) { return Names(drafter, name); };
  if (!uses("lookup")) NoteNoEffect(command, {"--lookup-min", "--lookup-max"}, drafter_is);
  if (!uses("lookahead")) {
    NoteNoEffect(command, {"--lookahead-window", "--lookahead-ngram", "--lookahead-guesses"},
                 drafter_is);
  }
  if (!IsGiven(command, "--suffix-store")) {
    NoteNoEffect(command, {"--suffix-store-mb"}, "it needs --suffix-store");
  }
  const bool is_chain_only = drafter == "lookup" || drafter == "none" || drafter == "lookahead";
  if (is_chain_only) NoteNoEffect(command, {"--draft-width"}, drafter_is);
  if (drafter == "none") {
    NoteNoEffect(command, {"--draft-max", "--color", "--accept"}, drafter_is);
  } else if (request.options.sampling.temperature == 0) {
    NoteNoEffect(command, {"--accept"}, "at temperature 0 both rules keep the most likely token");
  }
}

void NotePenaltyOptions(const CLI::App& command, const SamplingOptions& sampling) {
  const bool has_penalty = sampling.repeat_penalty != 1.0f || sampling.frequency_penalty != 0.0f ||
                           sampling.presence_penalty != 0.0f;
  if (!has_penalty) {
    NoteNoEffect(command, {"--repeat-last-n"}, "no penalty is set");
  } else if (sampling.penalty_window == 0) {
    NoteNoEffect(command, {"--repeat-penalty", "--frequency-penalty", "--presence-penalty"},
                 "--repeat-last-n 0 looks at no token");
  }
}

}  // namespace

void NoteOptionsWithoutEffect(const CLI::App& command, const GenerationRequest& request) {
  const SamplingOptions& sampling = request.options.sampling;
  NoteDraftOptions(command, request);
  NotePenaltyOptions(command, sampling);
  if (sampling.temperature == 0) {
    NoteNoEffect(command, {"--top-k", "--top-p", "--min-p", "--seed"},
                 "temperature 0 always takes the most likely token");
  }
}

void NoteBiasWithoutEffect(const CLI::App& command, const Engine& engine,
                           const GenerationOptions& options) {
  if (!options.ignore_end_tokens) return;
  const std::vector<int32_t>& ends = engine.tokenizer().special_tokens().end_of_generation;
  for (const auto& [token, bias] : options.sampling.logit_bias) {
    if (std::find(ends.begin(), ends.end(), token) == ends.end()) continue;
    NoteNoEffect(command, {"--logit-bias"},
                 fmt::format("id {} ends the text, and --ignore-eos bans it", token));
  }
}

void NoteUnusedPreTokenizer(const CLI::App& command, const GgufFile& file,
                            std::string_view reason) {
  // A file whose own pre-tokenizer is unknown cannot be loaded without the option.
  if (!IsGiven(command, "--pre") || !Tokenizer::Create(file, {}).ok()) return;
  NoteNoEffect(command, {"--pre"}, reason);
}

void NoteDraftModelOptions(const CLI::App& command, std::string_view reason) {
  NoteNoEffect(command,
               {"--draft-kv-type", "--ctx-size-draft", "--draft-repack", "--draft-head",
                "--draft-head-tokens"},
               reason);
}

void DropUnusedDraftModel(const CLI::App& command, bool is_used, EngineOptions* options) {
  if (is_used) return;
  NoteDraftModelOptions(command, "no draft model is used");
  NoteNoEffect(command, {"--model-draft"},
               "no drafter of this run uses the draft model; it is not loaded");
  options->draft_model_path.clear();
}

void DropUnusedStores(const CLI::App& command, const std::string& drafters,
                      EngineOptions* options) {
  const std::string drafter_is = fmt::format("the drafter is {}", drafters);
  const bool is_auto = Names(drafters, "auto");
  if (!Names(drafters, "rest") && !is_auto) {
    NoteNoEffect(command, {"--datastore"}, drafter_is);
    options->datastore_path.clear();
  }
  if (!Names(drafters, "suffix") && !is_auto) {
    NoteNoEffect(command, {"--suffix-store"}, drafter_is);
    options->suffix_store_path.clear();
    options->suffix_store_bytes = 0;
  }
}

}  // namespace tahmin::cli
