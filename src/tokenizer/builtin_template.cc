// The prompt forms of four model families, written out: for builds without Python and for files
// without a template. Texts go in as they are, except where the family's own template trims them.
#include <span>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "tokenizer/chat_template_forms.h"

namespace tahmin {
namespace {

using Messages = std::vector<ChatMessage>;
using RenderForm = absl::StatusOr<std::string> (*)(const Messages& messages,
                                                   bool add_generation_prompt);

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

// Gemma and Mistral have no system turn: its text leads the first user turn. They were trained on
// strictly alternating turns, and their own templates refuse anything else.
absl::StatusOr<Messages> FoldSystem(const Messages& messages, std::string_view form) {
  Messages turns;
  std::string system;
  for (size_t i = 0; i < messages.size(); ++i) {
    ChatMessage message = messages[i];
    if (i == 0 && message.role == "system") {
      system = message.content + "\n\n";
      continue;
    }
    const std::string_view expected = turns.size() % 2 == 0 ? "user" : "assistant";
    if (message.role != expected) {
      return absl::InvalidArgumentError(
          fmt::format("the '{}' form alternates user and assistant turns: expected '{}' as message "
                      "{}, found '{}'",
                      form, expected, i, message.role));
    }
    if (turns.empty()) message.content = system + message.content;
    turns.push_back(std::move(message));
  }
  if (turns.empty() && !system.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("the '{}' form needs a user turn to carry the system text", form));
  }
  return turns;
}

absl::StatusOr<std::string> RenderChatMl(const Messages& messages, bool add_generation_prompt) {
  std::string text;
  for (const ChatMessage& message : messages) {
    text += fmt::format("<|im_start|>{}\n{}<|im_end|>\n", message.role, message.content);
  }
  if (add_generation_prompt) text += "<|im_start|>assistant\n";
  return text;
}

absl::StatusOr<std::string> RenderLlama3(const Messages& messages, bool add_generation_prompt) {
  std::string text = "<|begin_of_text|>";
  for (const ChatMessage& message : messages) {
    text += fmt::format("<|start_header_id|>{}<|end_header_id|>\n\n{}<|eot_id|>", message.role,
                        Trim(message.content));
  }
  if (add_generation_prompt) text += "<|start_header_id|>assistant<|end_header_id|>\n\n";
  return text;
}

absl::StatusOr<std::string> RenderGemma(const Messages& messages, bool add_generation_prompt) {
  TAHMIN_ASSIGN_OR_RETURN(const Messages turns, FoldSystem(messages, "gemma"));
  std::string text = "<bos>";
  for (const ChatMessage& turn : turns) {
    const std::string_view role = turn.role == "assistant" ? "model" : "user";
    text += fmt::format("<start_of_turn>{}\n{}<end_of_turn>\n", role, Trim(turn.content));
  }
  if (add_generation_prompt) text += "<start_of_turn>model\n";
  return text;
}

absl::StatusOr<std::string> RenderMistral(const Messages& messages,
                                          bool /*add_generation_prompt*/) {
  TAHMIN_ASSIGN_OR_RETURN(const Messages turns, FoldSystem(messages, "mistral"));
  std::string text = "<s>";
  for (const ChatMessage& turn : turns) {
    if (turn.role == "user") {
      text += fmt::format("[INST] {} [/INST]", turn.content);
    } else {
      text += fmt::format(" {}</s>", turn.content);
    }
  }
  return text;
}

struct Row {
  std::string_view name;
  RenderForm render;
};

constexpr Row kRows[] = {
    {"chatml", RenderChatMl},
    {"llama3", RenderLlama3},
    {"gemma", RenderGemma},
    {"mistral", RenderMistral},
};

class BuiltInTemplate final : public ChatTemplate {
 public:
  explicit BuiltInTemplate(RenderForm render) : render_(render) {}

  absl::StatusOr<std::string> Render(const std::vector<ChatMessage>& messages,
                                     bool add_generation_prompt) const override {
    return render_(messages, add_generation_prompt);
  }

 private:
  RenderForm render_;
};

}  // namespace

std::string BuiltInTemplateNames() {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) names.push_back(row.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> CreateBuiltInTemplate(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return std::make_unique<BuiltInTemplate>(row.render);
  }
  return absl::InvalidArgumentError(fmt::format(
      "unknown built-in chat template '{}'; there are: {}", name, BuiltInTemplateNames()));
}

}  // namespace tahmin
