// tahmin chat: an interactive conversation that streams, and prefills only what is new.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <random>
#include <string>

#include "apps/command.h"
#include "apps/conversation.h"
#include "apps/draft_options.h"
#include "apps/engine_loading.h"
#include "apps/generation_options.h"
#include "apps/model_options.h"
#include "apps/option_effects.h"
#include "apps/talk.h"
#include "base/status_macros.h"
#include "fmt/format.h"

namespace tahmin::cli {

namespace {

constexpr char kChatExamples[] = R"(Examples:
  tahmin chat -m model.gguf
  tahmin chat -m target.gguf -md draft.gguf --system "You answer in one sentence." --stats
  tahmin chat -m model.gguf --json < messages.txt > answers.jsonl

At the prompt: Ctrl-C ends an answer (what was written stays in the conversation), Ctrl-D or /quit ends the program,
/clear forgets the conversation. Without a terminal each line of standard input is one message, and the exit code is 1 when one could not be answered. --json prints one object a
message on one line, with the fields of `tahmin run --json`; {"error"} for a message that could not be answered.)";

struct ChatCommandFlags {
  const CLI::App* command = nullptr;
  ModelFlags model;
  DraftFlags draft;
  GenerationFlags generation;
  ChatFlags chat;
  TalkFlags talk;
};

absl::StatusOr<GenerationRequest> MakeRequest(const ChatCommandFlags& flags) {
  GenerationRequest request;
  request.reuse_cache = true;
  TAHMIN_ASSIGN_OR_RETURN(request.options, flags.generation.Resolve());
  if (request.options.num_logprobs > 0 && !flags.talk.use_json) {
    return UsageError("--logprobs appear in JSON only: add --json");
  }
  if (flags.talk.use_json && flags.talk.use_color)
    return UsageError("--color and --json exclude each other");
  TAHMIN_ASSIGN_OR_RETURN(request.draft, flags.draft.Resolve(flags.model.engine));
  TAHMIN_ASSIGN_OR_RETURN(request.options.acceptance, ParseAcceptance(flags.draft.accept));
  TAHMIN_RETURN_IF_ERROR(flags.chat.Validate());
  return request;
}

// One seed for the whole conversation, so that --seed with the printed one repeats it.
void ChooseSeed(SamplingOptions* sampling) {
  if (sampling->seed.has_value() || sampling->temperature == 0) return;
  std::random_device device;
  sampling->seed = (uint64_t{device()} << 32) | device();
  fmt::print(stderr, "seed {}\n", *sampling->seed);
}

absl::StatusOr<int> Chat(const ChatCommandFlags& flags) {
  TAHMIN_ASSIGN_OR_RETURN(GenerationRequest request, MakeRequest(flags));
  TAHMIN_ASSIGN_OR_RETURN(const EngineOptions options,
                          EngineOptionsFor(*flags.command, flags.model, request));
  TAHMIN_ASSIGN_OR_RETURN(const auto engine, LoadEngine(options));
  ChooseSeed(&request.options.sampling);
  NoteBiasWithoutEffect(*flags.command, *engine, request.options);
  TAHMIN_ASSIGN_OR_RETURN(Conversation conversation, Conversation::Start(*engine, flags.chat));
  const int exit_code = Talk(flags.talk, *engine, std::move(request), std::move(conversation));
  if (!options.suffix_store_path.empty()) TAHMIN_RETURN_IF_ERROR(engine->SaveSuffixStore());
  return exit_code;
}

}  // namespace

void AddChatCommand(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<ChatCommandFlags>();
  CLI::App* command = app.add_subcommand("chat", "Talk to the model");
  flags->model.AddTo(*command);
  flags->draft.AddTo(*command);
  flags->generation.AddTo(*command);
  flags->chat.AddTo(*command);
  command->add_flag("--color", flags->talk.use_color, "show drafted and accepted tokens in green");
  command->add_flag("--stats", flags->talk.print_stats, "print the figures after each answer");
  command->add_flag("--json", flags->talk.use_json, "print one JSON object an answer, on one line");
  command->footer(kChatExamples);
  flags->command = command;
  command->callback([flags, exit_code] {
    const absl::StatusOr<int> code = Chat(*flags);
    *exit_code = code.ok() ? *code : Report(code.status());
  });
}

}  // namespace tahmin::cli
