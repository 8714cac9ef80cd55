// tahmin: the command line. Each subcommand is one file of this folder.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "apps/command.h"
#include "fmt/format.h"

namespace {

// llama.cpp's users write -md and -cd; a two-letter option with one dash is no short option to the
// parser. Last argument first, as CLI::App::parse wants a vector.
std::vector<std::string> WithLongNames(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = argc - 1; i >= 1; --i) {
    const std::string argument = argv[i];
    const bool is_two_letter_name = argument == "-md" || argument == "-cd";
    arguments.push_back(is_two_letter_name ? "-" + argument : argument);
  }
  return arguments;
}

// With a standard stream closed the next file that is opened would take its number, and the text
// would be written into it. What takes its place refuses writes, so that lost output is an error.
void OccupyStandardStreams() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) == -1 && errno == EBADF) {
      [[maybe_unused]] const int occupied = open("/dev/null", O_RDONLY);
    }
  }
}

int ReportUsage(const CLI::App& app, const std::string& first_argument, const CLI::Error& error) {
  std::string names, command = "COMMAND";
  for (const CLI::App* subcommand : app.get_subcommands({})) {
    names += (names.empty() ? "" : ", ") + subcommand->get_name();
    if (subcommand->get_name() == first_argument) command = first_argument;
  }
  std::string message = error.what();
  const size_t repeated = message.find(": At Most 1 required but received");
  if (repeated != std::string::npos) message = message.substr(0, repeated) + ": given twice";
  if (command == "COMMAND") {
    message = first_argument.empty()
                  ? fmt::format("expected a command ({}), found none", names)
                  : fmt::format("expected a command ({}), found '{}'", names, first_argument);
  }
  fmt::print(stderr, "tahmin: error: {}\nTry `tahmin {} --help`.\n", message, command);
  return 2;
}

// The reader of standard output has enough: ends as programs in a pipe do, without a word.
void EndIfPipeIsClosed() {
  pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  if (poll(&output, 1, 0) != 1 || (output.revents & POLLERR) == 0) return;
  signal(SIGPIPE, SIG_DFL);
  raise(SIGPIPE);
}

// What was written must have arrived: a full disk is an error, not a success.
int FlushOutput(int exit_code) {
  std::cout.flush();
  const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
  if (is_written) return exit_code;
  EndIfPipeIsClosed();
  fmt::print(stderr, "tahmin: error: cannot write to standard output: {}\n", std::strerror(errno));
  return exit_code == 0 || exit_code == 130 ? 1 : exit_code;
}

// An empty file name or list is an unset variable of a script, not a wish.
void RefuseEmptyNames(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    const bool is_name = option->get_type_name() == "FILE" || name == "--spec" ||
                         name == "--drafters" || name == "--groups";
    if (!is_name) continue;
    option->check(CLI::Validator(
        [](std::string& value) {
          return value.empty() ? std::string("expected a value, found an empty one")
                               : std::string();
        },
        ""));
  }
  for (CLI::App* inner : command.get_subcommands({})) RefuseEmptyNames(*inner);
}

void AddCommands(CLI::App& app, int* exit_code) {
  app.name("tahmin");
  app.require_subcommand(1);
  app.set_version_flag("--version", "tahmin 0.1.0");
  app.footer(
      "`tahmin COMMAND --help` shows a command's options, defaults and examples.\n"
      "TAHMIN_ISA pins the instruction set (`tahmin inspect` names those there are); auto keeps "
      "its measured "
      "costs in\n${XDG_CACHE_HOME:-~/.cache}/tahmin/step_costs.json.");
  tahmin::cli::AddRunCommand(app, exit_code);
  tahmin::cli::AddChatCommand(app, exit_code);
  tahmin::cli::AddTokenizeCommand(app, exit_code);
  tahmin::cli::AddLogitsCommand(app, exit_code);
  tahmin::cli::AddInspectCommand(app, exit_code);
  tahmin::cli::AddAuditCommand(app, exit_code);
  tahmin::cli::AddBenchCommand(app, exit_code);
  tahmin::cli::AddTheoryCommand(app, exit_code);
  tahmin::cli::AddDatastoreCommand(app, exit_code);
  for (CLI::App* command : app.get_subcommands({})) RefuseEmptyNames(*command);
}

}  // namespace

int main(int argc, char** argv) {
  OccupyStandardStreams();
  signal(SIGPIPE, SIG_IGN);  // a reader that has gone is a failed write, seen where it happens
  CLI::App app{
      "Tahmin runs language models on your own machine with exact speculative decoding:\n"
      "the text is the one that plain decoding writes, in fewer passes."};
  int exit_code = 0;
  AddCommands(app, &exit_code);
  try {
    app.parse(WithLongNames(argc, argv));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return ReportUsage(app, argc > 1 ? argv[1] : "", error);
    exit_code = app.exit(error);  // --help, --version
  } catch (const std::system_error& error) {
    EndIfPipeIsClosed();
    fmt::print(stderr, "tahmin: error: {}\n", error.what());
    return 1;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr,
               "tahmin: error: out of memory; -c makes the context smaller, `tahmin inspect` shows "
               "the memory plan\n");
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tahmin: error: {}\n", error.what());
    return 1;
  }
  return FlushOutput(exit_code);
}
