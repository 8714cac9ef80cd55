#include "gguf/gguf_file.h"

#include <fmt/format.h>

#include <unordered_map>
#include <utility>

#include "base/mapped_file.h"
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
  MappedFile mapped;  // empty: the bytes are somebody else's
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

GgufFile::~GgufFile() = default;

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::Parse(std::span<const uint8_t> bytes,
                                                          std::string display_name) {
  std::unique_ptr<GgufFile> file(new GgufFile);
  file->state_->path = std::move(display_name);
  file->state_->bytes = bytes;
  TAHMIN_RETURN_IF_ERROR(file->state_->Load());
  return file;
}

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path) {
  std::unique_ptr<GgufFile> file(new GgufFile);
  file->state_->path = path;
  TAHMIN_ASSIGN_OR_RETURN(file->state_->mapped, MappedFile::Open(path));
  file->state_->bytes = file->state_->mapped.bytes();
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

void GgufFile::DropPages(std::span<const uint8_t> bytes) const { state_->mapped.DropPages(bytes); }

}  // namespace tahmin
