#include "apps/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "fmt/format.h"

namespace tahmin::cli {

absl::StatusOr<OutputFile> OutputFile::Open(const std::string& flag, const std::string& path) {
  OutputFile file;
  file.flag_ = flag;
  file.path_ = path;
  std::error_code ignored;
  // A link is followed, not replaced: /dev/stdout is one.
  const auto kind = std::filesystem::symlink_status(path, ignored).type();
  const bool is_replaced =
      kind == std::filesystem::file_type::not_found || kind == std::filesystem::file_type::regular;
  // Two programs that write the same path must not write the same partial file.
  if (is_replaced) file.partial_path_ = fmt::format("{}.{}.part", path, getpid());
  file.stream_ = std::fopen(is_replaced ? file.partial_path_.c_str() : path.c_str(), "wb");
  if (file.stream_ == nullptr) {
    file.partial_path_.clear();
    return file.Failure();
  }
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : flag_(std::move(other.flag_)),
      path_(std::move(other.path_)),
      partial_path_(std::exchange(other.partial_path_, {})),
      stream_(std::exchange(other.stream_, nullptr)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(flag_, other.flag_);
  std::swap(path_, other.path_);
  std::swap(partial_path_, other.partial_path_);
  std::swap(stream_, other.stream_);
  std::swap(first_error_, other.first_error_);
  return *this;
}

OutputFile::~OutputFile() {
  if (stream_ != nullptr) std::fclose(stream_);
  if (!partial_path_.empty()) std::remove(partial_path_.c_str());
}

void OutputFile::Write(std::string_view bytes) {
  if (first_error_ != 0) return;
  errno = 0;
  if (std::fwrite(bytes.data(), 1, bytes.size(), stream_) != bytes.size()) first_error_ = errno;
}

absl::Status OutputFile::Failure() const {
  return absl::UnavailableError(
      fmt::format("{}: cannot write {}: {}", flag_, path_, std::strerror(errno)));
}

absl::Status OutputFile::Commit() {
  if (first_error_ != 0) errno = first_error_;
  if (first_error_ != 0 || std::fflush(stream_) != 0) return Failure();
  if (std::fclose(std::exchange(stream_, nullptr)) != 0) return Failure();
  if (partial_path_.empty()) return absl::OkStatus();
  std::error_code error;
  std::filesystem::rename(partial_path_, path_, error);
  if (error) {
    return absl::UnavailableError(
        fmt::format("{}: cannot write {}: {}", flag_, path_, error.message()));
  }
  partial_path_.clear();
  return absl::OkStatus();
}

}  // namespace tahmin::cli
