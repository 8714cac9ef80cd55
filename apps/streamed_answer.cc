#include "apps/streamed_answer.h"

#include "apps/terminal.h"

namespace tahmin::cli {

absl::StatusOr<GenerationResult> GenerateStreamed(Engine& engine, GenerationRequest& request,
                                                  StreamStyle style) {
  TextPrinter printer(style.use_color);
  InterruptScope interrupt;
  request.cancel = interrupt.flag();
  absl::StatusOr<GenerationResult> result = engine.Generate(
      request,
      [&](const TokenEvent& event) {
        if (!style.is_silent && !printer.Print(event)) interrupt.Set();
      },
      [](int64_t done, int64_t total) { ShowProgress("reading the prompt", done, total); });
  printer.Finish();
  return result;
}

}  // namespace tahmin::cli
