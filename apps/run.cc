// tahmin run: one prompt in, text out.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/conversation.h"
#include "apps/draft_options.h"
#include "apps/engine_loading.h"
#include "apps/generation_options.h"
#include "apps/json_output.h"
#include "apps/model_options.h"
#include "apps/option_effects.h"
#include "apps/output_file.h"
#include "apps/prompt_options.h"
#include "apps/streamed_answer.h"
#include "apps/terminal.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "tokenizer/tokenizer.h"

namespace tahmin::cli {

namespace {

constexpr char kRunExamples[] = R"(Examples:
  tahmin run -m model.gguf -p "The capital of France is" -n 32
  tahmin run -m target.gguf -md draft.gguf --chat -p "Write quicksort in C++." --color --stats
  tahmin run -m model.gguf --spec lookup -f notes.txt --temp 0 --json > result.json

--json prints one object: text, ids, finish_reason (stop, length, cancelled), seed, drafter, prompt_ids,
logprobs (when asked for) and stats: tokens_per_second (generated tokens over the time from the end of the target's
prefill to the last token), prefill_ms, draft_ms, verify_ms, decode_ms, total_ms, ttft_ms, prompt_tokens,
cached_prompt_tokens, generated_tokens, steps (target passes after the prefill), drafted, tested (looked at by
the rule), accepted, cut (dropped behind the end of the text), draft_context_full_steps (steps that drafted nothing
because the draft model's context was full), acceptance_rate, acceptance_by_depth, tested_by_depth, tokens_per_step,
drafters (the share of each: name, calls, proposed, drafted, accepted, tested_by_depth, accepted_by_depth, draft_ms,
won_ms: estimated time won over plain steps, where as many are drafted as pay).
Ctrl-C ends the answer: what is there is printed (finish_reason cancelled), and the exit code is 130.)";

struct RunFlags {
  const CLI::App* command = nullptr;
  ModelFlags model;
  DraftFlags draft;
  GenerationFlags generation;
  PromptFlags prompt;
  ChatFlags chat;
  bool use_chat = false, use_color = false, print_stats = false, use_json = false;
  std::string json_file;
};

absl::StatusOr<GenerationRequest> MakeRequest(const RunFlags& flags) {
  GenerationRequest request;
  TAHMIN_ASSIGN_OR_RETURN(request.options, flags.generation.Resolve());
  TAHMIN_ASSIGN_OR_RETURN(request.draft, flags.draft.Resolve(flags.model.engine));
  TAHMIN_ASSIGN_OR_RETURN(request.options.acceptance, ParseAcceptance(flags.draft.accept));
  if (request.options.num_logprobs > 0 && !flags.use_json && flags.json_file.empty()) {
    return UsageError("--logprobs appear in JSON only: add --json or --json-file");
  }
  if (!flags.use_chat && flags.chat.IsUsed())
    return UsageError("--system and --chat-template need --chat");
  TAHMIN_RETURN_IF_ERROR(flags.chat.Validate());
  if (flags.use_json && flags.use_color) return UsageError("--color and --json exclude each other");
  return request;
}

absl::StatusOr<std::vector<int32_t>> Tokenize(const RunFlags& flags, const Engine& engine,
                                              const std::string& text) {
  if (!flags.use_chat) return engine.tokenizer().Tokenize(text, {});
  TAHMIN_ASSIGN_OR_RETURN(Conversation conversation, Conversation::Start(engine, flags.chat));
  return conversation.Ask(text);
}

// The exit code.
absl::StatusOr<int> Run(const RunFlags& flags) {
  TAHMIN_ASSIGN_OR_RETURN(GenerationRequest request, MakeRequest(flags));
  TAHMIN_ASSIGN_OR_RETURN(const EngineOptions options,
                          EngineOptionsFor(*flags.command, flags.model, request));
  std::optional<OutputFile> json_file;
  if (!flags.json_file.empty()) {
    TAHMIN_ASSIGN_OR_RETURN(json_file, OutputFile::Open("--json-file", flags.json_file));
  }
  TAHMIN_ASSIGN_OR_RETURN(const std::string text, flags.prompt.Read());
  TAHMIN_ASSIGN_OR_RETURN(const auto engine, LoadEngine(options));
  NoteBiasWithoutEffect(*flags.command, *engine, request.options);
  TAHMIN_ASSIGN_OR_RETURN(request.prompt_tokens, Tokenize(flags, *engine, text));
  TAHMIN_ASSIGN_OR_RETURN(const GenerationResult result,
                          GenerateStreamed(*engine, request, {flags.use_color, flags.use_json}));

  const std::string json = DumpJson(ResultToJson(result, request)) + "\n";
  fmt::print("{}", flags.use_json ? json : "\n");
  if (json_file) {
    json_file->Write(json);
    TAHMIN_RETURN_IF_ERROR(json_file->Commit());
  }
  if (!options.suffix_store_path.empty()) TAHMIN_RETURN_IF_ERROR(engine->SaveSuffixStore());
  NoteFullDraftContext(result.stats, engine->draft_context_tokens());
  if (flags.print_stats) {
    PrintStats(result, request.draft.drafter, engine->num_threads());
  } else if (!request.options.sampling.seed && request.options.sampling.temperature > 0) {
    fmt::print(stderr, "seed {}\n", result.seed);
  }
  return result.finish_reason == "cancelled" ? kInterruptedExitCode : 0;
}

}  // namespace

void AddRunCommand(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command =
      app.add_subcommand("run", "Write the continuation of a prompt, or the answer to it");
  flags->model.AddTo(*command);
  flags->draft.AddTo(*command);
  flags->generation.AddTo(*command);
  flags->prompt.AddTo(*command);
  command->add_flag("--chat", flags->use_chat, "wrap the prompt in the model's chat template");
  flags->chat.AddTo(*command);
  command->add_flag("--color", flags->use_color, "show drafted and accepted tokens in green");
  command->add_flag("--stats", flags->print_stats, "print the figures after the text");
  command->add_flag("--json", flags->use_json, "print one JSON object in place of the text");
  command->add_option("--json-file", flags->json_file, "also write that object into this file")
      ->type_name("FILE");
  command->footer(kRunExamples);
  flags->command = command;
  command->callback([flags, exit_code] {
    const absl::StatusOr<int> code = Run(*flags);
    *exit_code = code.ok() ? *code : Report(code.status());
  });
}

}  // namespace tahmin::cli
