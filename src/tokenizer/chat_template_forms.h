// The two implementations behind ChatTemplate, for chat_template.cc.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tokenizer/chat_template.h"

namespace tahmin {

// "'chatml', 'llama3', ..." for messages.
std::string BuiltInTemplateNames();
absl::StatusOr<std::unique_ptr<ChatTemplate>> CreateBuiltInTemplate(std::string_view name);

// Defined only in builds with Jinja2.
std::unique_ptr<ChatTemplate> CreateJinjaTemplate(std::string source, std::string begin_text,
                                                  std::string end_text,
                                                  const ChatTemplateLimits& limits);

}  // namespace tahmin
