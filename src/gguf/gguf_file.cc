#include "gguf/gguf_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <unordered_map>
#include <utility>

#include "base/status_macros.h"
#include "gguf/gguf_cursor.h"
#include "gguf/gguf_parse.h"

namespace tahmin {

using gguf_internal::Quoted;

int64_t GgufTensor::rows() const {
  int64_t product = 1;
  for (size_t i = 1; i < dimensions.size(); ++i) product *= dimensions[i];
  return product;
}

struct GgufFile::State {
  std::string path;
  std::span<const uint8_t> bytes;
  void* mapping = nullptr;  // nullptr: the bytes are somebody else's
  gguf_internal::ParsedGguf parsed;
  std::unordered_map<std::string_view, size_t> entry_index;
  std::unordered_map<std::string_view, size_t> tensor_index;

  absl::Status Load();
};

absl::Status GgufFile::State::Load() {
  TAHMIN_ASSIGN_OR_RETURN(parsed, gguf_internal::ParseGguf(bytes, path));
  for (size_t i = 0; i < parsed.entries.size(); ++i) {
    if (!entry_index.emplace(parsed.entries[i].key, i).second) {
      return absl::InvalidArgumentError(
          fmt::format("{}: metadata key {} appears twice", path, Quoted(parsed.entries[i].key)));
    }
  }
  for (size_t i = 0; i < parsed.tensors.size(); ++i) {
    if (!tensor_index.emplace(parsed.tensors[i].name, i).second) {
      return absl::InvalidArgumentError(
          fmt::format("{}: tensor {} appears twice", path, Quoted(parsed.tensors[i].name)));
    }
  }
  return absl::OkStatus();
}

GgufFile::GgufFile() : state_(std::make_unique<State>()) {}

GgufFile::~GgufFile() {
  if (state_->mapping != nullptr) munmap(state_->mapping, state_->bytes.size());
}

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::Parse(std::span<const uint8_t> bytes,
                                                          std::string display_name) {
  std::unique_ptr<GgufFile> file(new GgufFile);
  file->state_->path = std::move(display_name);
  file->state_->bytes = bytes;
  TAHMIN_RETURN_IF_ERROR(file->state_->Load());
  return file;
}

namespace {

struct FileDescriptor {
  int number = -1;
  ~FileDescriptor() {
    if (number >= 0) close(number);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path) {
  FileDescriptor descriptor{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
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
  void* mapping = mmap(nullptr, num_bytes, PROT_READ, MAP_PRIVATE, descriptor.number, 0);
  if (mapping == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, fmt::format("{}: cannot map {} bytes", path, num_bytes));
  }
  std::unique_ptr<GgufFile> file(new GgufFile);
  file->state_->path = path;
  file->state_->mapping = mapping;
  file->state_->bytes = {static_cast<const uint8_t*>(mapping), num_bytes};
  TAHMIN_RETURN_IF_ERROR(file->state_->Load());
  return file;
}

const std::string& GgufFile::path() const { return state_->path; }
uint32_t GgufFile::version() const { return state_->parsed.version; }
uint64_t GgufFile::file_bytes() const { return state_->bytes.size(); }
const std::vector<GgufEntry>& GgufFile::entries() const { return state_->parsed.entries; }
const std::vector<GgufTensor>& GgufFile::tensors() const { return state_->parsed.tensors; }

const GgufEntry* GgufFile::FindEntry(std::string_view key) const {
  const auto found = state_->entry_index.find(key);
  return found == state_->entry_index.end() ? nullptr : &state_->parsed.entries[found->second];
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto found = state_->tensor_index.find(name);
  return found == state_->tensor_index.end() ? nullptr : &state_->parsed.tensors[found->second];
}

void GgufFile::DropPages(std::span<const uint8_t> bytes) const {
  const uint8_t* mapped = state_->bytes.data();
  const bool is_inside = state_->mapping != nullptr && bytes.data() >= mapped &&
                         bytes.data() + bytes.size() <= mapped + state_->bytes.size();
  if (!is_inside) return;
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t begin = (static_cast<uint64_t>(bytes.data() - mapped) + page - 1) / page * page;
  const uint64_t end = static_cast<uint64_t>(bytes.data() + bytes.size() - mapped) / page * page;
  // Advice only: a refusal costs memory, nothing else.
  if (begin < end)
    madvise(static_cast<uint8_t*>(state_->mapping) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace tahmin
