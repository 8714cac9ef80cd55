// The options of the model files and of the machine, turned into the engine's. Each group of
// options is added to a subcommand and read after parsing.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tahmin/options.h"

namespace CLI {
class App;
}

namespace tahmin::cli {

// -m -md -t -c -cd --kv-type --draft-kv-type --draft-repack --draft-head --draft-head-tokens
// --datastore --suffix-store --suffix-store-mb --prefill-chunk --pre
struct ModelFlags {
  EngineOptions engine;
  std::string kv_type = "f16";
  std::string draft_kv_type = "f16";
  std::string draft_repack = "auto";
  std::string draft_head = "auto";
  std::string pre_tokenizer;
  int32_t suffix_store_mb = 64;

  void AddTo(CLI::App& command, bool with_draft = true);
  absl::StatusOr<EngineOptions> Resolve() const;
};

absl::Status CheckPreTokenizerFlag(const std::string& name);

}  // namespace tahmin::cli
