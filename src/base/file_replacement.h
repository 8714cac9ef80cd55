// Writing a whole file so that nobody ever finds half of it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"

namespace tahmin {

enum class FileReaders { kOwner, kEveryone };  // modes 0600 and 0644

// Writes the bytes to a new file beside `path` and renames it to `path`; when that fails, what was
// there stays as it was and nothing is left beside it. A link is followed. Each message begins with
// a path.
absl::Status ReplaceFile(const std::string& path, std::span<const uint8_t> bytes,
                         FileReaders readers);

// Whether ReplaceFile can begin: a file can be created beside `path`, and `path` is a regular file
// or nothing yet. For those who would else find out after long work. Leaves nothing behind.
absl::Status CheckReplaceable(const std::string& path);

}  // namespace tahmin
