#include "apps/output_file.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "fmt/format.h"

namespace tahmin::cli {

namespace {

// Files that are not whole yet, for the signals that end the program. A slot is taken by setting
// its first byte last.
constexpr size_t kMostPartialFiles = 4;
constexpr size_t kLongestPath = 4096;
char partial_files[kMostPartialFiles][kLongestPath];

void RemovePartialFiles(int number) {
  for (const char* path : partial_files)
    if (path[0] != '\0') unlink(path);
  signal(number, SIG_DFL);
  raise(number);
}

void RememberPartialFile(const std::string& path) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action = {};
    sigaction(number, nullptr, &action);
    if (action.sa_handler != SIG_DFL) continue;  // ignored, or somebody ends in order
    action = {};
    action.sa_handler = RemovePartialFiles;
    sigaction(number, &action, nullptr);
  }
  for (char(&slot)[kLongestPath] : partial_files) {
    if (slot[0] != '\0' || path.size() >= kLongestPath) continue;
    std::memcpy(slot + 1, path.c_str() + 1, path.size());
    slot[0] = path[0];
    return;
  }
}

void ForgetPartialFile(const std::string& path) {
  for (char(&slot)[kLongestPath] : partial_files)
    if (path == slot) slot[0] = '\0';
}

bool IsStandardOutput(const std::string& path) {
  struct stat target = {}, output = {};
  return stat(path.c_str(), &target) == 0 && fstat(STDOUT_FILENO, &output) == 0 &&
         target.st_dev == output.st_dev && target.st_ino == output.st_ino &&
         S_ISREG(output.st_mode);
}

}  // namespace

absl::StatusOr<OutputFile> OutputFile::Open(const std::string& flag, const std::string& path) {
  OutputFile file;
  file.flag_ = flag;
  file.path_ = path;
  if (IsStandardOutput(path)) {
    return absl::InvalidArgumentError(
        fmt::format("{} {}: standard output goes to that file already; name another", flag, path));
  }
  std::error_code ignored;
  // A link stays one: the file that it stands for is replaced.
  if (std::filesystem::is_symlink(path, ignored)) {
    const auto target = std::filesystem::weakly_canonical(path, ignored);
    if (!ignored && !target.empty()) file.path_ = target.string();
  }
  const auto kind = std::filesystem::status(file.path_, ignored).type();
  const bool is_replaced =
      kind == std::filesystem::file_type::not_found || kind == std::filesystem::file_type::regular;
  // Two programs that write the same path must not write the same partial file.
  if (is_replaced) file.partial_path_ = fmt::format("{}.{}.part", file.path_, getpid());
  file.stream_ = std::fopen(is_replaced ? file.partial_path_.c_str() : file.path_.c_str(), "wb");
  if (file.stream_ == nullptr) {
    file.partial_path_.clear();
    return file.Failure();
  }
  if (is_replaced) RememberPartialFile(file.partial_path_);
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
  if (partial_path_.empty()) return;
  ForgetPartialFile(partial_path_);
  std::remove(partial_path_.c_str());
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
  ForgetPartialFile(partial_path_);
  partial_path_.clear();
  return absl::OkStatus();
}

}  // namespace tahmin::cli
