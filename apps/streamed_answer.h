// An answer that goes out while it is written, for the commands that talk to a person.
#pragma once

#include "absl/status/statusor.h"
#include "tahmin/engine.h"

namespace tahmin::cli {

struct StreamStyle {
  bool use_color = false;  // drafted and accepted tokens in green
  bool is_silent = false;  // no text: JSON follows
};

// Prints the text to stdout, and progress over a long prompt. Ctrl-C, a closed pipe or a full disk
// ends the generation. Sets request.cancel, which must not be used afterwards.
absl::StatusOr<GenerationResult> GenerateStreamed(Engine& engine, GenerationRequest& request,
                                                  StreamStyle style);

}  // namespace tahmin::cli
