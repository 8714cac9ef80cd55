// A conversation as the model's chat template renders it: messages in, prompt tokens out.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tahmin/engine.h"
#include "tokenizer/chat_template.h"

namespace CLI {
class App;
}

namespace tahmin::cli {

// --system --chat-template
struct ChatFlags {
  std::string system;
  std::string template_name;  // empty: the file's own; else a built-in form

  void AddTo(CLI::App& command);
  absl::Status Validate() const;  // before a model is loaded
  bool IsUsed() const { return !system.empty() || !template_name.empty(); }
};

class Conversation {
 public:
  static absl::StatusOr<Conversation> Start(const Engine& engine, const ChatFlags& flags);

  // The prompt for the model's answer to `text`. The message is kept when rendering worked.
  absl::StatusOr<std::vector<int32_t>> Ask(const std::string& text);
  void Answered(std::string text);  // the assistant's turn
  void Retract();                   // takes the last question back
  void Forget();                    // back to the system message

 private:
  const Engine* engine_ = nullptr;
  std::unique_ptr<ChatTemplate> template_;
  std::vector<ChatMessage> messages_;
  size_t num_system_messages_ = 0;
};

}  // namespace tahmin::cli
