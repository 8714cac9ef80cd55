#include "base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tahmin {

namespace {

// A page that is read for the first time brings along those of this size around it (Linux's
// default of fault_around_bytes, which is aligned in memory); a page may not be larger.
constexpr uintptr_t kFaultAroundBytes = 65536;

struct FileDescriptor {
  int number = -1;
  ~FileDescriptor() {
    if (number >= 0) close(number);
  }
};

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  const FileDescriptor descriptor{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (descriptor.number < 0) {
    return absl::ErrnoToStatus(errno, fmt::format("{}: cannot open", path));
  }
  struct stat attributes {};
  if (fstat(descriptor.number, &attributes) != 0) {
    return absl::ErrnoToStatus(errno, fmt::format("{}: cannot stat", path));
  }
  if (!S_ISREG(attributes.st_mode)) {
    return absl::InvalidArgumentError(fmt::format("{}: not a regular file", path));
  }
  if (attributes.st_size == 0) {
    return absl::DataLossError(fmt::format("{}: truncated: the file has 0 bytes", path));
  }
  const size_t num_bytes = static_cast<size_t>(attributes.st_size);
  void* mapping = mmap(nullptr, num_bytes, PROT_READ, MAP_SHARED, descriptor.number, 0);
  if (mapping == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, fmt::format("{}: cannot map {} bytes", path, num_bytes));
  }
  MappedFile file;
  file.bytes_ = {static_cast<const uint8_t*>(mapping), num_bytes};
  return file;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

void MappedFile::DropPages(std::span<const uint8_t> part) const {
  const uint8_t* mapped = bytes_.data();
  const bool is_inside = !bytes_.empty() && part.data() >= mapped &&
                         part.data() + part.size() <= mapped + bytes_.size();
  if (!is_inside) return;
  const auto first = reinterpret_cast<uintptr_t>(mapped);
  const auto wanted = reinterpret_cast<uintptr_t>(part.data());
  const uintptr_t begin = std::max(first, wanted / kFaultAroundBytes * kFaultAroundBytes);
  const uintptr_t end =
      std::min(first + bytes_.size(), (wanted + part.size() + kFaultAroundBytes - 1) /
                                          kFaultAroundBytes * kFaultAroundBytes);
  // Advice only: a refusal costs memory, nothing else. The system rounds the end up to a page.
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace tahmin
