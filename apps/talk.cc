#include "apps/talk.h"

#include <cstdio>
#include <iostream>
#include <string>
#include <utility>

#include "apps/command.h"
#include "apps/input_line.h"
#include "apps/json_output.h"
#include "apps/streamed_answer.h"
#include "apps/terminal.h"
#include "base/status_macros.h"
#include "fmt/format.h"

namespace tahmin::cli {

namespace {

class Dialogue {
 public:
  Dialogue(const TalkFlags& flags, Engine& engine, GenerationRequest request,
           Conversation conversation)
      : flags_(flags),
        engine_(engine),
        request_(std::move(request)),
        conversation_(std::move(conversation)) {}

  // The exit code: without a person to see it a failed message is remembered.
  int Run() {
    int exit_code = 0;
    std::string line;
    while (std::ferror(stdout) == 0) {
      if (StderrIsTerminal()) fmt::print(stderr, "> ");
      if (!GetInputLine(std::cin, &line) || line == "/quit") break;
      if (line.size() > kMostLineBytes) {
        ReportFailure(absl::InvalidArgumentError(
            fmt::format("expected a message of at most {} bytes, found more", kMostLineBytes)));
        return 1;
      }
      if (line.empty()) continue;
      if (line == "/clear") {
        conversation_.Forget();
        continue;
      }
      if (line.starts_with('/') && line.find_first_of(" \t/", 1) == std::string::npos) {
        fmt::print(stderr, "commands: /clear (start over), /quit; found '{}'\n", line);
        continue;
      }
      const absl::Status status = Answer(line);
      if (status.ok()) continue;
      ReportFailure(status);  // the conversation goes on without this message
      if (!StdinIsTerminal()) exit_code = 1;
    }
    if (StderrIsTerminal()) fmt::print(stderr, "\n");
    return exit_code;
  }

 private:
  absl::Status Answer(const std::string& message) {
    TAHMIN_ASSIGN_OR_RETURN(request_.prompt_tokens, conversation_.Ask(message));
    const auto result = GenerateStreamed(engine_, request_, {flags_.use_color, flags_.use_json});
    if (!result.ok()) {
      conversation_.Retract();
      return result.status();
    }
    fmt::print("{}\n", flags_.use_json ? DumpJson(ResultToJson(*result, request_)) : "");
    std::fflush(stdout);
    conversation_.Answered(result->text);
    Comment(*result);
    return absl::OkStatus();
  }

  // What is to be said about an answer, on stderr.
  void Comment(const GenerationResult& result) {
    const GenerationStats& stats = result.stats;
    if (stats.prompt_tokens + stats.generated_tokens >= engine_.context_tokens()) {
      fmt::print(stderr,
                 "tahmin: note: the context of {} tokens is full, the answer ends here; /clear "
                 "forgets the conversation, -c makes the context larger\n",
                 engine_.context_tokens());
    }
    if (!has_noted_draft_context_) NoteFullDraftContext(stats, engine_.draft_context_tokens());
    has_noted_draft_context_ |= stats.draft_context_full_steps > 0;
    if (flags_.print_stats) PrintStats(result, request_.draft.drafter, engine_.num_threads());
  }

  void ReportFailure(const absl::Status& status) {
    Report(status);
    if (!flags_.use_json) return;
    const nlohmann::json object = {{"error", std::string(status.message())}};
    fmt::print("{}\n", DumpJson(object));
    std::fflush(stdout);
  }

  const TalkFlags flags_;
  Engine& engine_;
  GenerationRequest request_;
  Conversation conversation_;
  bool has_noted_draft_context_ = false;
};

}  // namespace

int Talk(const TalkFlags& flags, Engine& engine, GenerationRequest request,
         Conversation conversation) {
  return Dialogue(flags, engine, std::move(request), std::move(conversation)).Run();
}

}  // namespace tahmin::cli
