#include "apps/conversation.h"

#include <CLI/CLI.hpp>
#include "apps/command.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "tokenizer/tokenizer.h"

namespace tahmin::cli {

void ChatFlags::AddTo(CLI::App& command) {
  command.add_option("--system", system, "system message of the conversation");
  command.add_option(
      "--chat-template", template_name,
      "built-in template in place of the file's own: chatml, llama3, gemma, mistral");
}

absl::Status ChatFlags::Validate() const {
  if (template_name.empty()) return absl::OkStatus();
  const absl::Status status = ChatTemplate::BuiltIn(template_name).status();
  if (status.ok()) return status;
  return UsageError(fmt::format("--chat-template: {}", std::string(status.message())));
}

absl::StatusOr<Conversation> Conversation::Start(const Engine& engine, const ChatFlags& flags) {
  Conversation conversation;
  conversation.engine_ = &engine;
  if (flags.template_name.empty()) {
    auto from_file = ChatTemplate::FromFile(engine.file());
    if (!from_file.ok()) {
      return absl::Status(from_file.status().code(),
                          fmt::format("{} (--chat-template NAME takes a built-in one)",
                                      std::string(from_file.status().message())));
    }
    conversation.template_ = std::move(from_file).value();
  } else {
    TAHMIN_ASSIGN_OR_RETURN(conversation.template_, ChatTemplate::BuiltIn(flags.template_name));
  }
  if (!flags.system.empty()) conversation.messages_.push_back({"system", flags.system});
  conversation.num_system_messages_ = conversation.messages_.size();
  return conversation;
}

absl::StatusOr<std::vector<int32_t>> Conversation::Ask(const std::string& text) {
  messages_.push_back({"user", text});
  absl::StatusOr<std::string> prompt = template_->Render(messages_, /*add_generation_prompt=*/true);
  if (!prompt.ok()) {
    messages_.pop_back();
    return prompt.status();
  }
  return engine_->tokenizer().Tokenize(*prompt, {.add_special = false, .parse_special = true});
}

void Conversation::Answered(std::string text) {
  messages_.push_back({"assistant", std::move(text)});
}

void Conversation::Retract() { messages_.pop_back(); }

void Conversation::Forget() { messages_.resize(num_system_messages_); }

}  // namespace tahmin::cli
