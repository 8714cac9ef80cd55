#include "base/file_replacement.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/status/statusor.h"
#include "base/status_macros.h"

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

// Where `path` leads: a link stays one, the file that it stands for is replaced.
std::string TargetOf(const std::string& path) {
  std::error_code ignored;
  const bool is_link = std::filesystem::is_symlink(path, ignored);
  return is_link ? std::filesystem::weakly_canonical(path, ignored).string() : path;
}

// A new file beside `target`, readable by its owner alone; its name goes into `temporary`.
absl::StatusOr<int> CreateBeside(const std::string& path, const std::string& target,
                                 std::string* temporary) {
  *temporary = target + ".XXXXXX";
  const int descriptor = mkstemp(temporary->data());
  if (descriptor >= 0) return descriptor;
  return absl::ErrnoToStatus(errno, fmt::format("{}: cannot create a file beside it", path));
}

}  // namespace

absl::Status CheckReplaceable(const std::string& path) {
  const std::string target = TargetOf(path);
  std::error_code ignored;
  const auto kind = std::filesystem::status(target, ignored).type();
  const bool is_other = kind != std::filesystem::file_type::regular &&
                        kind != std::filesystem::file_type::not_found &&
                        kind != std::filesystem::file_type::none;  // not to be seen: as below
  if (is_other) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected a regular file or none yet; it is neither", path));
  }
  std::string temporary;
  TAHMIN_ASSIGN_OR_RETURN(const int descriptor, CreateBeside(path, target, &temporary));
  close(descriptor);
  unlink(temporary.c_str());
  return absl::OkStatus();
}

absl::Status ReplaceFile(const std::string& path, std::span<const uint8_t> bytes,
                         FileReaders readers) {
  const std::string target = TargetOf(path);
  std::string temporary;
  TAHMIN_ASSIGN_OR_RETURN(const int descriptor, CreateBeside(path, target, &temporary));
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
