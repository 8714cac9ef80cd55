// tahmin chat: an interactive conversation that streams, and prefills only what is new.

#include <cstdio>
#include <iostream>
#include <random>
#include <string>

#include "apps/command.h"
#include "apps/conversation.h"
#include "apps/model_options.h"
#include "apps/option_effects.h"
#include "apps/terminal.h"
#include "base/status_macros.h"
#include "fmt/format.h"

namespace tahmin::cli {

namespace {

constexpr char kExamples[] = R"(Examples:
  tahmin chat -m model.gguf
  tahmin chat -m target.gguf -md draft.gguf --system "You answer in one sentence." --stats

At the prompt: Ctrl-C ends an answer (what was written stays in the conversation), Ctrl-D or /quit ends the program,
/clear forgets the conversation. Without a terminal each line of standard input is one message, and the exit code is 1 when one could not be answered.)";

struct ChatCommandFlags {
  const CLI::App* command = nullptr;
  ModelFlags model;
  DraftFlags draft;
  GenerationFlags generation;
  ChatFlags chat;
  bool use_color = false, print_stats = false;
};

absl::Status Answer(Engine& engine, const ChatCommandFlags& flags, GenerationRequest request,
                    Conversation& conversation, const std::string& message) {
  TAHMIN_ASSIGN_OR_RETURN(request.prompt_tokens, conversation.Ask(message));
  TextPrinter printer(flags.use_color);
  InterruptScope interrupt;
  request.cancel = interrupt.flag();
  auto result = engine.Generate(
      request,
      [&](const TokenEvent& event) {
        if (!printer.Print(event)) interrupt.Set();
      },
      [](int64_t done, int64_t total) { ShowProgress("reading the prompt", done, total); });
  printer.Finish();
  if (!result.ok()) {
    conversation.Retract();
    return result.status();
  }
  fmt::print("\n");
  const GenerationStats& stats = result->stats;
  if (stats.prompt_tokens + stats.generated_tokens >= engine.context_tokens()) {
    fmt::print(stderr,
               "tahmin: note: the context of {} tokens is full, the answer ends here; /clear "
               "forgets the conversation, -c makes the context larger\n",
               engine.context_tokens());
  }
  conversation.Answered(result->text);
  if (flags.print_stats) PrintStats(*result, request.draft.drafter);
  return absl::OkStatus();
}

absl::StatusOr<GenerationRequest> MakeRequest(const ChatCommandFlags& flags) {
  GenerationRequest request;
  request.reuse_cache = true;
  TAHMIN_ASSIGN_OR_RETURN(request.options, flags.generation.Resolve());
  if (request.options.num_logprobs > 0) return UsageError("--logprobs is for `tahmin run --json`");
  TAHMIN_ASSIGN_OR_RETURN(request.draft, flags.draft.Resolve(flags.model.engine.draft_model_path));
  TAHMIN_ASSIGN_OR_RETURN(request.options.acceptance, flags.draft.ResolveAcceptance());
  TAHMIN_RETURN_IF_ERROR(flags.chat.Validate());
  return request;
}

// Until the input ends. Without a person to see it a failed message is remembered: the exit code.
absl::StatusOr<int> Talk(Engine& engine, const ChatCommandFlags& flags,
                         const GenerationRequest& request) {
  TAHMIN_ASSIGN_OR_RETURN(Conversation conversation, Conversation::Start(engine, flags.chat));
  int exit_code = 0;
  std::string line;
  while (std::ferror(stdout) == 0) {
    if (StderrIsTerminal()) fmt::print(stderr, "> ");
    if (!std::getline(std::cin, line) || line == "/quit") break;
    if (line.empty()) continue;
    if (line == "/clear") {
      conversation.Forget();
      continue;
    }
    const absl::Status status = Answer(engine, flags, request, conversation, line);
    if (status.ok()) continue;
    Report(status);  // the conversation goes on without this message
    if (!StdinIsTerminal()) exit_code = 1;
  }
  if (StderrIsTerminal()) fmt::print(stderr, "\n");
  return exit_code;
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
  TAHMIN_ASSIGN_OR_RETURN(EngineOptions options, flags.model.Resolve());
  NoteOptionsWithoutEffect(*flags.command, request);
  DropUnusedDraftModel(*flags.command, request.draft.drafter == "draft", &options);
  options.draft = request.draft;
  TAHMIN_ASSIGN_OR_RETURN(const auto engine, LoadEngine(options, true));
  ChooseSeed(&request.options.sampling);
  return Talk(*engine, flags, request);
}

}  // namespace

void AddChatCommand(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<ChatCommandFlags>();
  CLI::App* command = app.add_subcommand("chat", "Talk to the model");
  flags->model.AddTo(*command);
  flags->draft.AddTo(*command);
  flags->generation.AddTo(*command);
  flags->chat.AddTo(*command);
  command->add_flag("--color", flags->use_color, "show drafted and accepted tokens in green");
  command->add_flag("--stats", flags->print_stats, "print the figures after each answer");
  command->footer(kExamples);
  flags->command = command;
  command->callback([flags, exit_code] {
    const absl::StatusOr<int> code = Chat(*flags);
    *exit_code = code.ok() ? *code : Report(code.status());
  });
}

}  // namespace tahmin::cli
