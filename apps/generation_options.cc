#include "apps/generation_options.h"

#include <CLI/CLI.hpp>
#include <limits>

#include "apps/command.h"
#include "apps/option_values.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "sampling/candidates.h"

namespace tahmin::cli {

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

}  // namespace tahmin::cli
