// Writes down what a target, and a draft model, say about the answers to a file of prompts
// (text_record.h), for simulate_auto.
//
//   record_texts -m TARGET.gguf [--draft-model DRAFT.gguf] --prompts PROMPTS.jsonl [-n 160] -o FILE
//
// With a draft model it ends with how often its first guess was right, by group: what weights in 4
// bits or an approximate head (--draft-repack, --draft-head) cost in acceptance.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "bench/control/text_recorder.h"
#include "fmt/format.h"
#include "measure/prompt_file.h"

namespace tahmin::bench {
namespace {

struct Flags {
  EngineOptions engine;
  std::string prompts_path, output_path, group;
  int32_t max_tokens = 160;
  size_t limit = 0;
};

absl::Status Append(const std::string& line, const std::string& path, std::ofstream* file) {
  if (*file << line << std::flush) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("{}: it cannot be written", path));
}

// First guesses of the draft model behind the output tokens of a group's texts.
struct FirstGuesses {
  int64_t num_right = 0, num_all = 0;

  void Add(const TextRecord& text) {
    for (size_t i = 0; i < text.drafts.size(); ++i) {
      num_right += text.drafts[i].first.token == text.output[i + 1] ? 1 : 0;
      ++num_all;
    }
  }
};

void Print(const std::map<std::string, FirstGuesses>& groups) {
  for (const auto& [group, guesses] : groups) {
    if (guesses.num_all == 0) continue;
    fmt::print(
        "{:<16} first guesses right: {:.1f} % of {}\n", group,
        100.0 * static_cast<double>(guesses.num_right) / static_cast<double>(guesses.num_all),
        guesses.num_all);
  }
}

// Each text is in the file as soon as it is recorded.
absl::Status Run(const Flags& flags) {
  TAHMIN_ASSIGN_OR_RETURN(std::vector<PromptEntry> prompts, ReadPromptFile(flags.prompts_path));
  std::erase_if(prompts, [&](const PromptEntry& prompt) {
    return !flags.group.empty() && prompt.group != flags.group;
  });
  if (prompts.empty()) {
    return absl::NotFoundError(
        fmt::format("{}: no prompt of group '{}'", flags.prompts_path, flags.group));
  }
  if (flags.limit > 0 && flags.limit < prompts.size()) prompts.resize(flags.limit);
  TAHMIN_ASSIGN_OR_RETURN(const auto recorder,
                          TextRecorder::Create(flags.engine, flags.max_tokens));
  std::ofstream file(flags.output_path, std::ios::binary);
  TAHMIN_RETURN_IF_ERROR(Append(ToLine(recorder->Header()), flags.output_path, &file));
  std::map<std::string, FirstGuesses> guesses;
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
    guesses[text->group].Add(*text);
  }
  Print(guesses);
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
  app.add_option("--group", flags.group, "only this group of the prompt file");
  app.add_option("--limit", flags.limit, "only the first prompts; 0: all");
  app.add_option("--draft-repack", flags.engine.draft_repack, "auto, stored or 4bit")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, tahmin::DraftRepack>{{"auto", tahmin::DraftRepack::kAuto},
                                                     {"stored", tahmin::DraftRepack::kStored},
                                                     {"4bit", tahmin::DraftRepack::k4Bit}}));
  app.add_option("--draft-head", flags.engine.draft_head, "auto, exact, frequent or coarse")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, tahmin::DraftHead>{{"auto", tahmin::DraftHead::kAuto},
                                                   {"exact", tahmin::DraftHead::kExact},
                                                   {"frequent", tahmin::DraftHead::kFrequent},
                                                   {"coarse", tahmin::DraftHead::kCoarse}}));
  app.add_option("--draft-head-tokens", flags.engine.draft_head_tokens,
                 "frequent: tokens kept; coarse: candidates; 0: a good number");
  app.add_option("-o,--output", flags.output_path, "the record")->required();
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = tahmin::bench::Run(flags);
  if (status.ok()) return 0;
  fmt::print(stderr, "record_texts: {}\n", std::string(status.message()));
  return 1;
}
