#include "draft/datastore.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/mapped_file.h"
#include "base/status_macros.h"
#include "draft/datastore_format.h"

namespace tahmin {

namespace format = datastore_format;

int DatastoreChunk::Compare(uint64_t rank, std::span<const int32_t> pattern) const {
  const uint64_t position = suffixes_[rank];
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (position + i >= entries_.size()) return -1;  // an end comes before every token
    const uint32_t entry = entries_[position + i];
    const uint32_t wanted = static_cast<uint32_t>(pattern[i]);
    if (entry != wanted) return entry < wanted ? -1 : 1;
  }
  return 0;
}

SuffixRange DatastoreChunk::Find(std::span<const int32_t> pattern) const {
  // The first rank in [low, high) whose comparison is at least `least`.
  const auto partition = [&](uint64_t low, uint64_t high, int least) {
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      if (Compare(middle, pattern) >= least) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  };
  const uint64_t begin = partition(0, suffixes_.size(), 0);
  if (begin == suffixes_.size() || Compare(begin, pattern) != 0) return {};
  // Most patterns occur a few times: the end is looked for near the beginning first.
  uint64_t step = 1;
  uint64_t inside = begin;
  while (step < suffixes_.size() - inside && Compare(inside + step, pattern) == 0) {
    inside += step;
    step *= 2;
  }
  const uint64_t limit = inside + std::min<uint64_t>(step, suffixes_.size() - inside);
  return {.begin = begin, .end = partition(inside + 1, limit, 1)};
}

std::span<const uint32_t> DatastoreChunk::Continuation(uint64_t rank, uint64_t skip,
                                                       uint64_t length) const {
  const uint64_t from = suffixes_[rank] + skip;
  if (from >= entries_.size()) return {};
  const std::span<const uint32_t> rest =
      entries_.subspan(from, std::min<uint64_t>(length, entries_.size() - from));
  const auto is_no_token = [this](uint32_t entry) { return entry >= vocab_size_; };
  const auto end = std::find_if(rest.begin(), rest.end(), is_no_token);
  return rest.first(static_cast<size_t>(end - rest.begin()));
}

void DatastoreChunk::Prefetch(uint64_t rank, uint64_t skip) const {
  const uint64_t from = suffixes_[rank] + skip;
  if (from < entries_.size()) __builtin_prefetch(&entries_[from]);
}

namespace {

absl::Status Truncated(const std::string& path, uint64_t expected, uint64_t found) {
  return absl::DataLossError(
      fmt::format("{}: truncated: expected {} bytes, found {}", path, expected, found));
}

absl::Status CheckHeader(const std::string& path, const format::Header& header) {
  if (std::memcmp(header.magic, format::kMagic, sizeof(header.magic)) != 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: not a datastore: expected the file to begin with '{}'", path,
                    std::string(format::kMagic, sizeof(format::kMagic))));
  }
  if (header.version != format::kVersion) {
    return absl::UnimplementedError(fmt::format("{}: expected datastore version {}, found {}", path,
                                                format::kVersion, header.version));
  }
  if (header.vocab_size == 0 || header.vocab_size > format::kSeparator) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected a vocabulary of 1 to {} tokens, found {}", path,
                    format::kSeparator, header.vocab_size));
  }
  if (header.num_chunks > format::kMostChunks) {
    return absl::InvalidArgumentError(fmt::format("{}: expected at most {} chunks, found {}", path,
                                                  format::kMostChunks, header.num_chunks));
  }
  return absl::OkStatus();
}

// An array of u32 that a row of the chunk table places between the header and the table.
absl::Status CheckArray(const std::string& what, uint64_t offset, uint64_t count,
                        uint64_t table_offset) {
  const bool is_inside = offset >= sizeof(format::Header) && offset <= table_offset &&
                         count <= (table_offset - offset) / sizeof(uint32_t);
  if (is_inside && offset % format::kAlignment == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{}: expected an array between bytes {} and {} aligned to {}, found {} numbers at byte {}",
      what, sizeof(format::Header), table_offset, format::kAlignment, count, offset));
}

absl::Status CheckRow(const std::string& what, const format::ChunkRow& row, uint64_t table_offset) {
  if (row.num_entries > format::kMostChunkEntries || row.num_suffixes > row.num_entries) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected at most {} entries and no more suffixes than entries, found {} "
                    "and {}",
                    what, format::kMostChunkEntries, row.num_entries, row.num_suffixes));
  }
  TAHMIN_RETURN_IF_ERROR(
      CheckArray(what + ", entries", row.entries_offset, row.num_entries, table_offset));
  return CheckArray(what + ", suffixes", row.suffixes_offset, row.num_suffixes, table_offset);
}

}  // namespace

absl::Status Datastore::Load() {
  TAHMIN_CHECK(reinterpret_cast<uintptr_t>(bytes_.data()) % alignof(uint64_t) == 0);
  format::Header header;
  if (bytes_.size() < sizeof(header)) return Truncated(path_, sizeof(header), bytes_.size());
  std::memcpy(&header, bytes_.data(), sizeof(header));
  TAHMIN_RETURN_IF_ERROR(CheckHeader(path_, header));

  const uint64_t table_bytes = header.num_chunks * sizeof(format::ChunkRow);
  if (header.table_offset > bytes_.size() || bytes_.size() - header.table_offset < table_bytes) {
    return Truncated(path_, header.table_offset + table_bytes, bytes_.size());
  }
  if (header.table_offset + table_bytes != bytes_.size()) {
    return absl::InvalidArgumentError(fmt::format("{}: expected {} bytes, found {}", path_,
                                                  header.table_offset + table_bytes,
                                                  bytes_.size()));
  }
  std::vector<format::ChunkRow> table(header.num_chunks);
  if (table_bytes > 0) std::memcpy(table.data(), &bytes_[header.table_offset], table_bytes);
  const uint64_t checksum = format::Checksum(header, table);
  if (checksum != header.checksum) {
    return absl::DataLossError(fmt::format("{}: damaged: expected checksum {:016x}, found {:016x}",
                                           path_, header.checksum, checksum));
  }

  const auto array = [this](uint64_t offset, uint64_t count) {
    return std::span(reinterpret_cast<const uint32_t*>(bytes_.data() + offset), count);
  };
  uint64_t num_suffixes = 0;
  for (size_t i = 0; i < table.size(); ++i) {
    const format::ChunkRow& row = table[i];
    TAHMIN_RETURN_IF_ERROR(
        CheckRow(fmt::format("{}: chunk {}", path_, i), row, header.table_offset));
    chunks_.emplace_back(array(row.entries_offset, row.num_entries),
                         array(row.suffixes_offset, row.num_suffixes), header.vocab_size);
    num_suffixes += row.num_suffixes;
  }
  if (num_suffixes != header.num_tokens) {
    return absl::InvalidArgumentError(fmt::format("{}: expected {} tokens in the chunks, found {}",
                                                  path_, header.num_tokens, num_suffixes));
  }
  fingerprint_ = header.fingerprint;
  vocab_size_ = header.vocab_size;
  num_tokens_ = header.num_tokens;
  num_documents_ = header.num_documents;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Datastore>> Datastore::Parse(std::span<const uint8_t> bytes,
                                                            std::string display_name) {
  std::unique_ptr<Datastore> store(new Datastore);
  store->path_ = std::move(display_name);
  store->bytes_ = bytes;
  TAHMIN_RETURN_IF_ERROR(store->Load());
  return store;
}

absl::StatusOr<std::unique_ptr<Datastore>> Datastore::Open(const std::string& path) {
  std::unique_ptr<Datastore> store(new Datastore);
  store->path_ = path;
  TAHMIN_ASSIGN_OR_RETURN(store->mapped_, MappedFile::Open(path));
  store->bytes_ = store->mapped_.bytes();
  TAHMIN_RETURN_IF_ERROR(store->Load());
  return store;
}

absl::Status Datastore::CheckTokenizer(uint64_t fingerprint) const {
  if (fingerprint == fingerprint_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{}: made with another tokenizer: expected fingerprint {:016x}, found {:016x}",
                  path_, fingerprint, fingerprint_));
}

}  // namespace tahmin
