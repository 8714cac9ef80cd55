// tahmin: the command line. Each subcommand is one file of this folder.

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "apps/command.h"
#include "fmt/format.h"

namespace tahmin::cli {

namespace {
constexpr char kUsagePrefix[] = "usage: ";
}  // namespace

absl::Status UsageError(const std::string& message) {
  return absl::InvalidArgumentError(kUsagePrefix + message);
}

int Report(const absl::Status& status) {
  if (status.ok()) return 0;
  const std::string message(status.message());
  const bool is_usage = message.rfind(kUsagePrefix, 0) == 0;
  const std::string text = is_usage ? message.substr(sizeof(kUsagePrefix) - 1) : message;
  fmt::print(stderr, "tahmin: error: {}\n", text);
  return is_usage ? 2 : 1;
}

}  // namespace tahmin::cli

namespace {

// llama.cpp's users write -md; a two-letter option with one dash is no short option to the parser.
// Last argument first, as CLI::App::parse wants a vector.
std::vector<std::string> WithLongNames(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = argc - 1; i >= 1; --i) {
    const std::string argument = argv[i];
    arguments.push_back(argument == "-md" ? "--md" : argument);
  }
  return arguments;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Tahmin runs language models on your own machine with exact speculative decoding:\n"
      "the text is the one that plain decoding writes, several times faster."};
  app.name("tahmin");
  app.require_subcommand(1);
  app.set_version_flag("--version", "tahmin 0.1.0");
  app.footer("`tahmin COMMAND --help` shows a command's options, defaults and examples.");

  int exit_code = 0;
  using tahmin::cli::Report;
  tahmin::cli::AddRunCommand(app, &exit_code);
  tahmin::cli::AddChatCommand(app, &exit_code);
  tahmin::cli::AddTokenizeCommand(app, &exit_code);
  tahmin::cli::AddLogitsCommand(app, &exit_code);
  tahmin::cli::AddInspectCommand(app, &exit_code);
  tahmin::cli::AddAuditCommand(app, &exit_code);
  tahmin::cli::AddBenchCommand(app, &exit_code);
  tahmin::cli::AddTheoryCommand(app, &exit_code);

  try {
    app.parse(WithLongNames(argc, argv));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    fmt::print(stderr, "tahmin: error: {}\nTry `tahmin --help`, or `tahmin COMMAND --help`.\n",
               error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tahmin: error: {}\n", error.what());
    return 1;
  }
  return exit_code;
}
