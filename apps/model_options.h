// The options that several commands share, turned into the library's structs. Each group is added
// to a subcommand and read after parsing.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "tahmin/engine.h"
#include "tahmin/options.h"

namespace tahmin::cli {

// -m -md -t -c --kv-type --draft-kv-type --prefill-chunk --pre
struct ModelFlags {
  EngineOptions engine;
  std::string kv_type = "f16";
  std::string draft_kv_type = "f16";
  std::string pre_tokenizer;

  void AddTo(CLI::App& command, bool with_draft = true);
  absl::StatusOr<EngineOptions> Resolve() const;
};

// --spec --draft-max --lookup-min --lookup-max --accept
struct DraftFlags {
  DraftOptions draft;
  std::string spec;  // empty: `draft` when a draft model is given, else `none`
  std::string accept = "keyed";

  void AddTo(CLI::App& command);
  absl::StatusOr<DraftOptions> Resolve(const std::string& draft_model_path,
                                       const std::string& flag = "--spec") const;
  absl::StatusOr<AcceptanceRuleKind> ResolveAcceptance() const;
};

// --temp --top-k --top-p --min-p --repeat-penalty ... --seed, -n, --stop, --ignore-eos, --logprobs
struct GenerationFlags {
  GenerationOptions generation;
  std::vector<std::string> logit_bias;
  std::string seed;
  CLI::Option* seed_option = nullptr;

  void AddTo(CLI::App& command);
  absl::StatusOr<GenerationOptions> Resolve() const;
};

// -p -f: the prompt, exactly its bytes; stdin when neither is given and stdin is no terminal.
struct PromptFlags {
  std::string prompt, prompt_file;
  CLI::Option* prompt_option = nullptr;
  CLI::Option* file_option = nullptr;

  void AddTo(CLI::App& command);
  absl::StatusOr<std::string> Read() const;
};

absl::Status CheckPreTokenizerFlag(const std::string& name);

// Prints the memory plan, then loads with a progress line on a terminal.
absl::StatusOr<std::unique_ptr<Engine>> LoadEngine(const EngineOptions& options, bool print_plan);

// One line; bytes that are no UTF-8 (metadata of a damaged file) become replacement marks.
std::string DumpJson(const nlohmann::json& object);
nlohmann::json StatsToJson(const GenerationStats& stats);

}  // namespace tahmin::cli
