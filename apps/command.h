// One subcommand of the program: a file adds its options to the command line and runs when chosen.
// Exit codes: 0, 1 for a runtime error, 2 for a usage error. Generated text and JSON go to stdout,
// everything else to stderr.
#pragma once

#include "absl/status/status.h"

namespace CLI {
class App;
}

namespace tahmin::cli {

// Each adds one subcommand; *exit_code is set when it ran.
void AddRunCommand(CLI::App& app, int* exit_code);
void AddChatCommand(CLI::App& app, int* exit_code);
void AddTokenizeCommand(CLI::App& app, int* exit_code);
void AddLogitsCommand(CLI::App& app, int* exit_code);
void AddInspectCommand(CLI::App& app, int* exit_code);
void AddAuditCommand(CLI::App& app, int* exit_code);
void AddBenchCommand(CLI::App& app, int* exit_code);
void AddTheoryCommand(CLI::App& app, int* exit_code);
void AddDatastoreCommand(CLI::App& app, int* exit_code);

// A wrong option value found after parsing: what was expected, what was found. Exit code 2.
absl::Status UsageError(const std::string& message);

// Prints "tahmin: error: ..." and gives the exit code: 0, 2 for a usage error, 1 for any other.
int Report(const absl::Status& status);

}  // namespace tahmin::cli
