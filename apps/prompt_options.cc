#include "apps/prompt_options.h"

#include <CLI/CLI.hpp>
#include "apps/command.h"
#include "apps/terminal.h"
#include "base/file_contents.h"

namespace tahmin::cli {

void PromptFlags::AddTo(CLI::App& command) {
  prompt_option = command.add_option("-p,--prompt", prompt, "the prompt, exactly these bytes");
  file_option = command.add_option(
      "-f,--file", prompt_file,
      "file that holds the prompt; no newline is stripped. Without -p and -f: stdin");
  file_option->type_name("FILE");
  prompt_option->excludes(file_option);
}

absl::StatusOr<std::string> PromptFlags::Read() const {
  if (prompt_option->count() > 0) return prompt;
  if (file_option->count() > 0) return ReadWholeFile(prompt_file);
  if (StdinIsTerminal()) {
    return UsageError("no prompt: give -p TEXT or -f FILE, or pipe it in");
  }
  return ReadStandardInput();
}

}  // namespace tahmin::cli
