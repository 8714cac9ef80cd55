// Errors as the command line tells them.

#include <cstdio>
#include <string>
#include <string_view>

#include "apps/command.h"
#include "fmt/format.h"

namespace tahmin::cli {

namespace {

constexpr char kUsagePrefix[] = "usage: ";

// The library names its fields; people typed flags.
struct FlagName {
  std::string_view field, flag;
};
constexpr FlagName kFlagNames[] = {
    {"temperature", "--temp"},
    {"top_k", "--top-k"},
    {"top_p", "--top-p"},
    {"min_p", "--min-p"},
    {"repeat_penalty", "--repeat-penalty"},
    {"frequency_penalty", "--frequency-penalty"},
    {"presence_penalty", "--presence-penalty"},
    {"penalty_window", "--repeat-last-n"},
    {"logit_bias", "--logit-bias"},
    {"num_logprobs", "--logprobs"},
    {"max_tokens", "--predict"},
    {"a stop string", "--stop: a stop string"},
    {"context_tokens", "--ctx-size"},
    {"num_threads", "--threads"},
    {"prefill_chunk", "--prefill-chunk"},
    {"draft_max", "--draft-max"},
    {"no model file is given", "--model: no file is given"},
};

// A library error about an option's value is a usage error: it gets the flag's name.
absl::Status NameTheFlag(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kInvalidArgument) return status;
  const std::string message(status.message());
  for (const FlagName& row : kFlagNames) {
    if (message.rfind(row.field, 0) != 0) continue;
    const std::string rest = message.substr(row.field.size());
    if (!rest.empty() && rest[0] != ':' && rest[0] != ' ') continue;
    return UsageError(fmt::format("{}{}", row.flag, rest));
  }
  return status;
}

}  // namespace

absl::Status UsageError(const std::string& message) {
  return absl::InvalidArgumentError(kUsagePrefix + message);
}

int Report(const absl::Status& status) {
  if (status.ok()) return 0;
  const std::string message(NameTheFlag(status).message());
  const bool is_usage = message.rfind(kUsagePrefix, 0) == 0;
  const std::string text = is_usage ? message.substr(sizeof(kUsagePrefix) - 1) : message;
  fmt::print(stderr, "tahmin: error: {}\n", text);
  return is_usage ? 2 : 1;
}

}  // namespace tahmin::cli
