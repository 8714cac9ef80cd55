// Chat templates and messages of any content. Each input is a list of texts parted by 0xFF: for the
// built-in forms a conversation; for Jinja2 (first byte 0xFE) the template, then a conversation.
// A Jinja2 template is rendered in a child process: start it with -detect_leaks=0 -timeout=20.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "tokenizer/chat_template.h"

namespace {

std::vector<std::string> Split(std::string_view text) {
  std::vector<std::string> parts;
  for (size_t end = text.find('\xFF'); end != std::string_view::npos; end = text.find('\xFF')) {
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.emplace_back(text);
  return parts;
}

std::vector<tahmin::ChatMessage> Conversation(const std::vector<std::string>& parts, size_t first) {
  std::vector<tahmin::ChatMessage> messages;
  for (size_t i = first; i + 1 < parts.size(); i += 2) {
    // Short names for the roles that forms know; anything else stands for itself.
    const std::string& role = parts[i];
    const std::string name = role == "u" ? "user" : role == "s" ? "system" : role;
    messages.push_back({name == "a" ? "assistant" : name, parts[i + 1]});
  }
  return messages;
}

void Render(const tahmin::ChatTemplate& form, const std::vector<tahmin::ChatMessage>& messages,
            bool add_generation_prompt) {
  const auto text = form.Render(messages, add_generation_prompt);
  TAHMIN_CHECK(text.ok() || !text.status().message().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t num_bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes), num_bytes);
  const bool is_jinja = !text.empty() && text[0] == '\xFE';
  if (is_jinja) text.remove_prefix(1);
  const std::vector<std::string> parts = Split(text);
  const std::vector<tahmin::ChatMessage> messages = Conversation(parts, is_jinja ? 1 : 0);
  if (!is_jinja) {
    for (std::string_view name : {"chatml", "llama3", "gemma", "mistral"}) {
      const auto form = tahmin::ChatTemplate::BuiltIn(name);
      for (bool add_prompt : {false, true}) Render(**form, messages, add_prompt);
    }
    return 0;
  }
  const tahmin::ChatTemplateLimits limits = {
      .cpu_seconds = 1, .memory_bytes = size_t{256} << 20, .output_bytes = size_t{1} << 20};
  const auto form = tahmin::ChatTemplate::FromJinja(parts[0], "<s>", "</s>", limits);
  // One rendering starts one interpreter, which takes longer than all else here.
  if (form.ok()) Render(**form, messages, num_bytes % 2 == 0);
  return 0;
}
