// Writes down what a target, and a draft model, say about the answers to a file of prompts
// (text_record.h), for simulate_auto.
//
//   record_texts -m TARGET.gguf [--draft-model DRAFT.gguf] --prompts PROMPTS.jsonl [-n 160] -o FILE
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <string>

#include "base/status_macros.h"
#include "bench/control/text_recorder.h"
#include "fmt/format.h"
#include "measure/prompt_file.h"

namespace tahmin::bench {
namespace {

struct Flags {
  EngineOptions engine;
  std::string prompts_path, output_path;
  int32_t max_tokens = 160;
  size_t limit = 0;
};

absl::Status Append(const std::string& line, const std::string& path, std::ofstream* file) {
  if (*file << line << std::flush) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("{}: it cannot be written", path));
}

// Each text is in the file as soon as it is recorded.
absl::Status Run(const Flags& flags) {
  TAHMIN_ASSIGN_OR_RETURN(std::vector<PromptEntry> prompts, ReadPromptFile(flags.prompts_path));
  if (flags.limit > 0 && flags.limit < prompts.size()) prompts.resize(flags.limit);
  TAHMIN_ASSIGN_OR_RETURN(const auto recorder,
                          TextRecorder::Create(flags.engine, flags.max_tokens));
  std::ofstream file(flags.output_path, std::ios::binary);
  TAHMIN_RETURN_IF_ERROR(Append(ToLine(recorder->Header()), flags.output_path, &file));
  for (size_t i = 0; i < prompts.size(); ++i) {
    fmt::print(stderr, "{} of {}: {}", i + 1, prompts.size(), prompts[i].id);
    const absl::StatusOr<TextRecord> text = recorder->Record(prompts[i]);
    if (absl::IsOutOfRange(text.status())) {
      fmt::print(stderr, ", left out: {}\n", std::string(text.status().message()));
      continue;
    }
    TAHMIN_RETURN_IF_ERROR(text.status());
    fmt::print(stderr, ", {} + {} tokens\n", text->prompt.size(), text->output.size());
    TAHMIN_RETURN_IF_ERROR(Append(ToLine(*text), flags.output_path, &file));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace tahmin::bench

int main(int argc, char** argv) {
  CLI::App app("record what models say about the answers to a file of prompts");
  tahmin::bench::Flags flags;
  app.add_option("-m,--model", flags.engine.model_path, "target")->required();
  app.add_option("--draft-model", flags.engine.draft_model_path, "draft model");
  app.add_option("-t,--threads", flags.engine.num_threads, "threads; 0: all cores")
      ->check(CLI::Range(0, 1024));
  app.add_option("--prompts", flags.prompts_path, "prompt file (JSON lines: id, group, turns)")
      ->required();
  app.add_option("-n,--predict", flags.max_tokens, "most tokens of an answer")
      ->capture_default_str()
      ->check(CLI::Range(2, 1 << 20));
  app.add_option("--limit", flags.limit, "only the first prompts; 0: all");
  app.add_option("-o,--output", flags.output_path, "the record")->required();
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = tahmin::bench::Run(flags);
  if (status.ok()) return 0;
  fmt::print(stderr, "record_texts: {}\n", std::string(status.message()));
  return 1;
}
