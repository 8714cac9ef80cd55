// From options to a loaded engine: the context that fits the files, the memory plan, the load.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "apps/model_options.h"
#include "tahmin/engine.h"

namespace CLI {
class App;
}

namespace tahmin::cli {

// Contexts that were not asked for become what the files were trained for where that is less; one
// that was asked for and is more is kept, with a warning that names both numbers.
absl::Status FitContext(const CLI::App& command, EngineOptions* options);

// For a command that answers requests like this one: `model` without what no drafter of the request
// reads (said on stderr), with a context that fits. A suffix store that could not be written at the
// end is an error now.
absl::StatusOr<EngineOptions> EngineOptionsFor(const CLI::App& command, const ModelFlags& model,
                                               const GenerationRequest& request);

enum class PlanOutput { kPrinted, kSilent };  // kSilent: the command shows its own plan

// Prints the memory plan, one line, before anything is loaded; then loads, with a progress line on
// a terminal.
absl::StatusOr<std::unique_ptr<Engine>> LoadEngine(const EngineOptions& options,
                                                   PlanOutput plan_output = PlanOutput::kPrinted);

}  // namespace tahmin::cli
