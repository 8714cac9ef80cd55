// The options of one generation: sampling, limits, log-probabilities.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tahmin/options.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tahmin::cli {

// --temp --top-k --top-p --min-p --repeat-penalty ... --seed, -n, --stop, --ignore-eos, --logprobs
struct GenerationFlags {
  GenerationOptions generation;
  std::vector<std::string> logit_bias;
  std::string seed;
  CLI::Option* seed_option = nullptr;

  void AddTo(CLI::App& command);
  absl::StatusOr<GenerationOptions> Resolve() const;
};

}  // namespace tahmin::cli
