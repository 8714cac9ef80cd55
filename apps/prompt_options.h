// The one prompt of a command.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tahmin::cli {

// -p -f: the prompt, exactly its bytes; stdin when neither is given and stdin is no terminal.
struct PromptFlags {
  std::string prompt, prompt_file;
  CLI::Option* prompt_option = nullptr;
  CLI::Option* file_option = nullptr;

  void AddTo(CLI::App& command);
  absl::StatusOr<std::string> Read() const;
};

}  // namespace tahmin::cli
