#include "apps/engine_loading.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "apps/draft_options.h"
#include "apps/option_effects.h"
#include "apps/terminal.h"
#include "base/file_replacement.h"
#include "base/status_macros.h"
#include "engine/context_length.h"
#include "fmt/format.h"

namespace tahmin::cli {

namespace {

void WarnBeyondTraining(std::string_view option, int64_t asked, const ContextLength& length,
                        std::string_view whose, std::string_view consequence) {
  if (asked <= length.usable) return;
  fmt::print(stderr,
             "tahmin: warning: {} {} is more than the {} tokens that {} was trained for: beyond "
             "them {}\n",
             option, asked, length.usable, whose, consequence);
}

absl::Status FitDraftContext(const CLI::App& command, EngineOptions* options) {
  TAHMIN_ASSIGN_OR_RETURN(const ContextLength length, ReadContextLength(options->draft_model_path));
  if (options->draft_context_tokens == 0) {
    const bool is_short = length.usable >= 1 && length.usable < options->context_tokens;
    if (is_short) options->draft_context_tokens = static_cast<int32_t>(length.usable);
    return absl::OkStatus();
  }
  if (options->draft_context_tokens >= options->context_tokens) {
    NoteNoEffect(command, {"--ctx-size-draft"},
                 fmt::format("the target's context holds {} tokens", options->context_tokens));
    return absl::OkStatus();
  }
  WarnBeyondTraining("--ctx-size-draft", options->draft_context_tokens, length, "the draft model",
                     "its guesses are seldom right");
  return absl::OkStatus();
}

}  // namespace

absl::Status FitContext(const CLI::App& command, EngineOptions* options) {
  TAHMIN_ASSIGN_OR_RETURN(const ContextLength length, ReadContextLength(options->model_path));
  if (!IsGiven(command, "--ctx-size") && length.usable >= 2) {
    options->context_tokens =
        static_cast<int32_t>(std::min<int64_t>(options->context_tokens, length.usable));
  }
  if (options->context_tokens == 0) options->context_tokens = static_cast<int32_t>(length.trained);
  WarnBeyondTraining("--ctx-size", options->context_tokens, length, "the model",
                     "the text may make no sense");
  return options->draft_model_path.empty() ? absl::OkStatus() : FitDraftContext(command, options);
}

absl::StatusOr<EngineOptions> EngineOptionsFor(const CLI::App& command, const ModelFlags& model,
                                               const GenerationRequest& request) {
  TAHMIN_ASSIGN_OR_RETURN(EngineOptions options, model.Resolve());
  NoteOptionsWithoutEffect(command, request);
  DropUnusedStores(command, request.draft.drafter, &options);
  DropUnusedDraftModel(command, UsesDraftModel(request.draft, options), &options);
  TAHMIN_RETURN_IF_ERROR(FitContext(command, &options));
  if (!options.suffix_store_path.empty())
    TAHMIN_RETURN_IF_ERROR(CheckReplaceable(options.suffix_store_path));
  options.draft = request.draft;
  return options;
}

absl::StatusOr<std::unique_ptr<Engine>> LoadEngine(const EngineOptions& options,
                                                   PlanOutput plan_output) {
  if (plan_output == PlanOutput::kPrinted) {
    TAHMIN_ASSIGN_OR_RETURN(const MemoryPlan plan, Engine::Plan(options));
    PrintMemoryPlan(plan);
  }
  return Engine::Create(options, [](std::string_view what, uint64_t done, uint64_t total) {
    ShowProgress(fmt::format("loading {}", what), done, total);
  });
}

}  // namespace tahmin::cli
