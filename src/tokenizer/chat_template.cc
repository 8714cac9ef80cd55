#include "tokenizer/chat_template.h"

#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "tokenizer/chat_template_forms.h"

namespace tahmin {
namespace {

constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

// The text of the token that `id_key` names; empty where the file names none.
absl::StatusOr<std::string> TokenTextOf(const GgufFile& file, std::string_view id_key) {
  if (file.FindEntry(id_key) == nullptr) return std::string();
  TAHMIN_ASSIGN_OR_RETURN(const int64_t id, file.GetInt(id_key));
  TAHMIN_ASSIGN_OR_RETURN(const std::vector<std::string_view> texts,
                          file.GetStringArray("tokenizer.ggml.tokens"));
  if (id == -1 || id == int64_t{0xFFFFFFFF}) return std::string();
  if (id < 0 || static_cast<uint64_t>(id) >= texts.size()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected an id below {}, found {}", id_key, texts.size(), id));
  }
  return std::string(texts[id]);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::FromFile(
    const GgufFile& file, const ChatTemplateLimits& limits) {
  if (file.FindEntry(kTemplateKey) == nullptr) {
    return absl::FailedPreconditionError(fmt::format("{} has no {}; choose a built-in form: {}",
                                                     file.path(), kTemplateKey,
                                                     BuiltInTemplateNames()));
  }
  TAHMIN_ASSIGN_OR_RETURN(const std::string_view source, file.GetString(kTemplateKey));
  TAHMIN_ASSIGN_OR_RETURN(std::string begin_text, TokenTextOf(file, "tokenizer.ggml.bos_token_id"));
  TAHMIN_ASSIGN_OR_RETURN(std::string end_text, TokenTextOf(file, "tokenizer.ggml.eos_token_id"));
  return FromJinja(std::string(source), std::move(begin_text), std::move(end_text), limits);
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::FromJinja(
    std::string source, std::string begin_text, std::string end_text,
    const ChatTemplateLimits& limits) {
#ifdef TAHMIN_WITH_JINJA2
  return CreateJinjaTemplate(std::move(source), std::move(begin_text), std::move(end_text), limits);
#else
  return absl::FailedPreconditionError(
      fmt::format("this build cannot render Jinja templates; choose a built-in form: {}",
                  BuiltInTemplateNames()));
#endif
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::BuiltIn(std::string_view name) {
  return CreateBuiltInTemplate(name);
}

}  // namespace tahmin
