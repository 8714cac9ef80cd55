#include "engine/interleaved_bench.h"

#include "base/status_macros.h"

namespace tahmin {

absl::StatusOr<std::vector<BenchRun>> BenchPrompt(Engine& engine,
                                                  const std::vector<int32_t>& prompt,
                                                  const BenchOptions& options,
                                                  const std::function<void()>& on_run) {
  std::vector<BenchSetting> settings = {{"none", {}}};
  settings.insert(settings.end(), options.settings.begin(), options.settings.end());
  GenerationRequest request;
  request.prompt_tokens = prompt;
  request.options = options.generation;
  if (!request.options.sampling.seed) request.options.sampling.seed = 0;

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
      if (run.is_identical && run.stats.decode_ms > 0)
        run.speedup = plain.stats.decode_ms / run.stats.decode_ms;
    }
    for (BenchRun& run : of_round) runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace tahmin
