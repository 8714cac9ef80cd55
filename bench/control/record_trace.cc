// Writes down what `auto` is told and chooses while it answers a prompt
// (src/control/controller_trace.h), and checks that the choices come out the same when they are
// made again from that.
//
//   record_trace -m MODEL.gguf [--draft-model DRAFT.gguf] [-n 120] PROMPT > trace
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "control/controller_trace.h"
#include "draft/drafter_list.h"
#include "fmt/format.h"
#include "tahmin/engine.h"
#include "tokenizer/tokenizer.h"

namespace tahmin {
namespace {

int Fail(const absl::Status& status) {
  fmt::print(stderr, "record_trace: {}\n", std::string(status.message()));
  return 1;
}

int Record(const EngineOptions& options, const std::string& prompt, int32_t max_tokens) {
  const auto engine = Engine::Create(options);
  if (!engine.ok()) return Fail(engine.status());
  const auto tokens = (*engine)->tokenizer().Tokenize(prompt, {});
  if (!tokens.ok()) return Fail(tokens.status());
  std::string trace;
  GenerationRequest request;
  request.prompt_tokens = *tokens;
  request.draft = options.draft;
  request.options.max_tokens = max_tokens;
  request.options.sampling.temperature = 0;
  request.controller_trace = &trace;
  const auto result = (*engine)->Generate(request);
  if (!result.ok()) return Fail(result.status());
  const auto report = ReplayTrace(trace);
  if (!report.ok()) return Fail(report.status());
  fmt::print(stderr, "{} steps, {} choices, {} of them different when made again\n",
             report->num_steps, report->num_choices, report->differences.size());
  for (const std::string& difference : report->differences) fmt::print(stderr, "{}\n", difference);
  fmt::print("{}", trace);
  return report->differences.empty() ? 0 : 1;
}

}  // namespace
}  // namespace tahmin

int main(int argc, char** argv) {
  CLI::App app("record what auto chooses");
  tahmin::EngineOptions options;
  options.draft.drafter = std::string(tahmin::kAuto);
  options.draft.draft_max = 24;
  std::string prompt;
  int32_t max_tokens = 120;
  app.add_option("-m,--model", options.model_path, "target")->required();
  app.add_option("--draft-model", options.draft_model_path, "draft model");
  app.add_option("-n,--predict", max_tokens, "tokens");
  app.add_option("prompt", prompt, "prompt")->required();
  CLI11_PARSE(app, argc, argv);
  return tahmin::Record(options, prompt, max_tokens);
}
