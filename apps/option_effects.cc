#include "apps/option_effects.h"

#include "fmt/format.h"

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

void NoteOptionsWithoutEffect(const CLI::App& command, const GenerationRequest& request) {
  const SamplingOptions& sampling = request.options.sampling;
  const std::string& drafter = request.draft.drafter;
  const std::string drafter_is = fmt::format("the drafter is {}", drafter);
  const bool is_rejection = request.options.acceptance == AcceptanceRuleKind::kRejection;
  if (drafter != "lookup") NoteNoEffect(command, {"--lookup-min", "--lookup-max"}, drafter_is);
  if (drafter == "none") NoteNoEffect(command, {"--draft-max", "--color"}, drafter_is);
  if (drafter == "none" && is_rejection) NoteNoEffect(command, {"--accept"}, drafter_is);
  if (sampling.temperature == 0) {
    const std::string_view reason = "temperature 0 always takes the most likely token";
    NoteNoEffect(command, {"--top-k", "--top-p", "--min-p", "--seed"}, reason);
    if (drafter != "none" && is_rejection) NoteNoEffect(command, {"--accept"}, reason);
  }
  if (sampling.repeat_penalty == 1.0f && sampling.frequency_penalty == 0.0f &&
      sampling.presence_penalty == 0.0f) {
    NoteNoEffect(command, {"--repeat-last-n"}, "no penalty is set");
  }
}

void DropUnusedDraftModel(const CLI::App& command, bool is_used, EngineOptions* options) {
  if (is_used) return;
  NoteNoEffect(command, {"--draft-kv-type"}, "no draft model is used");
  NoteNoEffect(command, {"--model-draft"},
               "no drafter of this run uses the draft model; it is not loaded");
  options->draft_model_path.clear();
}

}  // namespace tahmin::cli
