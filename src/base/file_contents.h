// What a file, or standard input, holds, in one string: prompts, records, settings. Large files are
// mapped (mapped_file.h).
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace tahmin {

// RESOURCE_EXHAUSTED beyond 256 MiB: no context holds that much, and an endless source (a device, a
// pipe) must not take all memory. NOT_FOUND: the file cannot be opened. DATA_LOSS: nor read.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);
absl::StatusOr<std::string> ReadStandardInput();

}  // namespace tahmin
