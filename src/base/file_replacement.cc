#include "base/file_replacement.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace tahmin {

namespace {

absl::Status WriteAll(int descriptor, std::span<const uint8_t> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return absl::ErrnoToStatus(errno, fmt::format("{}: cannot write", path));
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReplaceFile(const std::string& path, std::span<const uint8_t> bytes,
                         FileReaders readers) {
  // A link stays one: the file that it stands for is replaced.
  std::error_code ignored;
  const bool is_link = std::filesystem::is_symlink(path, ignored);
  const std::string target =
      is_link ? std::filesystem::weakly_canonical(path, ignored).string() : path;
  std::string temporary = target + ".XXXXXX";
  const int descriptor = mkstemp(temporary.data());  // readable by its owner alone
  if (descriptor < 0) {
    return absl::ErrnoToStatus(errno, fmt::format("{}: cannot create a file beside it", path));
  }
  absl::Status status = WriteAll(descriptor, bytes, temporary);
  if (status.ok() && readers == FileReaders::kEveryone && fchmod(descriptor, 0644) != 0) {
    status = absl::ErrnoToStatus(errno, fmt::format("{}: cannot set its mode", temporary));
  }
  if (status.ok() && fsync(descriptor) != 0) {
    status = absl::ErrnoToStatus(errno, fmt::format("{}: cannot flush", temporary));
  }
  if (close(descriptor) != 0 && status.ok()) {
    status = absl::ErrnoToStatus(errno, fmt::format("{}: cannot close", temporary));
  }
  if (status.ok() && std::rename(temporary.c_str(), target.c_str()) != 0) {
    status = absl::ErrnoToStatus(errno, fmt::format("{}: cannot rename to {}", temporary, path));
  }
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

}  // namespace tahmin
