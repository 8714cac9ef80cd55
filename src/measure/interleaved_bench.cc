#include "measure/interleaved_bench.h"

#include "base/status_macros.h"

namespace tahmin {

bool WritesPlainText(const GenerationOptions& options) {
  return options.acceptance == AcceptanceRuleKind::kKeyed || options.sampling.temperature == 0;
}

absl::StatusOr<std::vector<BenchRun>> BenchPrompt(Engine& engine,
                                                  const std::vector<int32_t>& prompt,
                                                  const BenchOptions& options,
                                                  const std::function<void()>& on_run) {
  std::vector<BenchSetting> settings = {{"none", {}}};
  settings.insert(settings.end(), options.settings.begin(), options.settings.end());
  GenerationRequest request;
  request.prompt_tokens = prompt;
  request.options = options.generation;
  request.keep_output = false;  // or the next run would draft from this one's
  if (!request.options.sampling.seed) request.options.sampling.seed = 0;

  // Where each writes another draw, those that happen to be equal are a selection.
  const bool has_same_draws = WritesPlainText(options.generation);
  std::vector<BenchRun> runs;
  for (int32_t round = 0; round < options.rounds; ++round) {
    std::vector<BenchRun> of_round(settings.size());
    for (size_t i = 0; i < settings.size(); ++i) {
      const size_t index = round % 2 == 0 ? i : settings.size() - 1 - i;
      request.draft = settings[index].draft;
      TAHMIN_ASSIGN_OR_RETURN(GenerationResult result, engine.Generate(request));
      of_round[index] = {.drafter = settings[index].name,
                         .round = round,
                         .tokens = std::move(result.tokens),
                         .stats = std::move(result.stats)};
      on_run();
    }
    const BenchRun& plain = of_round[0];
    for (BenchRun& run : of_round) {
      run.is_identical = run.tokens == plain.tokens;
      // Without a pass behind the prompt there is no time to compare.
      const bool has_times = run.stats.steps > 0 && plain.stats.steps > 0;
      if (run.is_identical && has_times && (has_same_draws || run.drafter == plain.drafter))
        run.speedup = plain.stats.decode_ms / run.stats.decode_ms;
    }
    for (BenchRun& run : of_round) runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace tahmin
