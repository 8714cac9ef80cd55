// Renders a conversation to the prompt text that a model was trained on. Two implementations behind
// one interface: Jinja2 itself in its immutable sandbox (the file's own tokenizer.chat_template,
// untrusted: rendered in a child process with limits on time, memory and output), and built-in
// forms (ChatML, Llama-3, Gemma, Mistral) for builds without Python or on request. No silent
// fallback.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "gguf/gguf_file.h"

namespace tahmin {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

struct ChatTemplateLimits {
  double cpu_seconds = 2.0;
  size_t memory_bytes = size_t{512} << 20;
  size_t output_bytes = size_t{16} << 20;
};

class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;

  // From tokenizer.chat_template of the file, through Jinja2. FAILED_PRECONDITION when the file has
  // no template, or when this build has no Jinja2: the message names the built-in forms.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> FromFile(
      const GgufFile& file, const ChatTemplateLimits& limits = {});
  // A template text given directly; begin and end texts are bos_token and eos_token for it.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> FromJinja(
      std::string source, std::string begin_text, std::string end_text,
      const ChatTemplateLimits& limits = {});
  // "chatml", "llama3", "gemma", "mistral".
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> BuiltIn(std::string_view name);

  // The result holds special tokens as text (tokenize with add_special = false, parse_special =
  // true). Syntax errors, raise_exception, and exceeded limits are INVALID_ARGUMENT /
  // RESOURCE_EXHAUSTED.
  virtual absl::StatusOr<std::string> Render(const std::vector<ChatMessage>& messages,
                                             bool add_generation_prompt) const = 0;
};

}  // namespace tahmin
