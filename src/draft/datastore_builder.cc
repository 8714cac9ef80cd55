#include "draft/datastore_builder.h"

#include <divsufsort.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "draft/datastore_format.h"

namespace tahmin {

namespace format = datastore_format;

struct DatastoreBuilder::State {
  std::string path, partial_path;
  DatastoreBuilderOptions options;
  std::FILE* stream = nullptr;
  uint64_t offset = 0;            // of the next byte
  std::vector<uint32_t> entries;  // of the chunk in the making
  std::vector<format::ChunkRow> table;
  uint64_t num_tokens = 0, num_documents = 0, num_sorted = 0;

  absl::Status Failure() const {
    return absl::ErrnoToStatus(errno, fmt::format("{}: cannot write", path));
  }
  absl::Status Write(const void* data, uint64_t num_bytes);
  absl::Status Align();
  absl::Status WriteChunk();
  absl::Status WriteHeader();
  void Report(uint64_t num_open) const {
    if (options.progress) options.progress(num_sorted, num_sorted + num_open);
  }
};

absl::Status DatastoreBuilder::State::Write(const void* data, uint64_t num_bytes) {
  if (num_bytes > 0 && std::fwrite(data, 1, num_bytes, stream) != num_bytes) return Failure();
  offset += num_bytes;
  return absl::OkStatus();
}

absl::Status DatastoreBuilder::State::Align() {
  constexpr char kZeros[format::kAlignment] = {};
  return Write(kZeros, (format::kAlignment - offset % format::kAlignment) % format::kAlignment);
}

namespace {

// The positions of all entries but the separators, in suffix order.
absl::StatusOr<std::vector<int32_t>> SortSuffixes(std::span<const uint32_t> entries) {
  std::vector<uint8_t> text;
  text.reserve(entries.size() * 3);
  for (const uint32_t entry : entries) {
    text.push_back(static_cast<uint8_t>(entry >> 16));
    text.push_back(static_cast<uint8_t>(entry >> 8));
    text.push_back(static_cast<uint8_t>(entry));
  }
  std::vector<int32_t> suffixes(text.size());
  if (divsufsort(text.data(), suffixes.data(), static_cast<int32_t>(text.size())) != 0) {
    return absl::ResourceExhaustedError(
        fmt::format("no memory to sort {} tokens; a smaller chunk takes less", entries.size()));
  }
  const auto is_dropped = [&](int32_t at) {
    return at % 3 != 0 || entries[static_cast<size_t>(at / 3)] == format::kSeparator;
  };
  suffixes.erase(std::remove_if(suffixes.begin(), suffixes.end(), is_dropped), suffixes.end());
  for (int32_t& at : suffixes) at /= 3;
  return suffixes;
}

}  // namespace

absl::Status DatastoreBuilder::State::WriteChunk() {
  if (entries.empty()) return absl::OkStatus();
  if (table.size() == format::kMostChunks) {
    return absl::ResourceExhaustedError(fmt::format("{}: expected at most {} chunks of {} tokens",
                                                    path, format::kMostChunks,
                                                    options.chunk_entries));
  }
  Report(entries.size());
  TAHMIN_ASSIGN_OR_RETURN(const std::vector<int32_t> suffixes, SortSuffixes(entries));
  format::ChunkRow row;
  row.num_entries = entries.size();
  row.num_suffixes = suffixes.size();
  TAHMIN_RETURN_IF_ERROR(Align());
  row.entries_offset = offset;
  TAHMIN_RETURN_IF_ERROR(Write(entries.data(), entries.size() * sizeof(uint32_t)));
  TAHMIN_RETURN_IF_ERROR(Align());
  row.suffixes_offset = offset;
  TAHMIN_RETURN_IF_ERROR(Write(suffixes.data(), suffixes.size() * sizeof(int32_t)));
  table.push_back(row);
  num_sorted += entries.size();
  entries.clear();
  Report(0);
  return absl::OkStatus();
}

absl::Status DatastoreBuilder::State::WriteHeader() {
  format::Header header = {};
  std::copy(std::begin(format::kMagic), std::end(format::kMagic), header.magic);
  header.version = format::kVersion;
  header.vocab_size = static_cast<uint32_t>(options.vocab_size);
  header.fingerprint = options.fingerprint;
  header.num_tokens = num_tokens;
  header.num_documents = num_documents;
  header.table_offset = offset;
  header.num_chunks = table.size();
  header.checksum = format::Checksum(header, table);
  TAHMIN_RETURN_IF_ERROR(Write(table.data(), table.size() * sizeof(format::ChunkRow)));
  if (std::fseek(stream, 0, SEEK_SET) != 0) return Failure();
  if (std::fwrite(&header, sizeof(header), 1, stream) != 1) return Failure();
  return absl::OkStatus();
}

DatastoreBuilder::DatastoreBuilder() : state_(std::make_unique<State>()) {}

DatastoreBuilder::~DatastoreBuilder() {
  if (state_->stream != nullptr) std::fclose(state_->stream);
  if (!state_->partial_path.empty()) std::remove(state_->partial_path.c_str());
}

absl::StatusOr<std::unique_ptr<DatastoreBuilder>> DatastoreBuilder::Create(
    const std::string& path, DatastoreBuilderOptions options) {
  const int64_t most_entries = static_cast<int64_t>(format::kMostChunkEntries);
  if (options.chunk_entries < 2 || options.chunk_entries > most_entries) {
    return absl::InvalidArgumentError(fmt::format("expected chunks of 2 to {} tokens, found {}",
                                                  most_entries, options.chunk_entries));
  }
  if (options.vocab_size < 1 || options.vocab_size > static_cast<int32_t>(format::kSeparator)) {
    return absl::InvalidArgumentError(
        fmt::format("expected a vocabulary of 1 to {} tokens, found {}", format::kSeparator,
                    options.vocab_size));
  }
  std::unique_ptr<DatastoreBuilder> builder(new DatastoreBuilder);
  State& state = *builder->state_;
  state.path = path;
  state.options = std::move(options);
  // Two programs that write the same path must not write the same partial file.
  const std::string partial_path = fmt::format("{}.{}.part", path, getpid());
  state.stream = std::fopen(partial_path.c_str(), "wbe");
  if (state.stream == nullptr) return state.Failure();
  state.partial_path = partial_path;
  const format::Header no_header = {};
  TAHMIN_RETURN_IF_ERROR(state.Write(&no_header, sizeof(no_header)));
  return builder;
}

absl::Status DatastoreBuilder::AddDocument(std::span<const int32_t> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < state_->options.vocab_size) continue;
    return absl::InvalidArgumentError(fmt::format("expected token ids from 0 to {}, found {} at {}",
                                                  state_->options.vocab_size - 1, tokens[i], i));
  }
  if (tokens.empty()) return absl::OkStatus();
  const size_t most = static_cast<size_t>(state_->options.chunk_entries);
  std::vector<uint32_t>& entries = state_->entries;
  state_->num_documents += 1;
  state_->num_tokens += tokens.size();
  while (!tokens.empty()) {
    // At least one token and the separator must fit.
    if (most - entries.size() < 2) TAHMIN_RETURN_IF_ERROR(state_->WriteChunk());
    const size_t count = std::min(tokens.size(), most - entries.size() - 1);
    entries.insert(entries.end(), tokens.begin(), tokens.begin() + static_cast<int64_t>(count));
    entries.push_back(format::kSeparator);
    tokens = tokens.subspan(count);
  }
  return absl::OkStatus();
}

absl::Status DatastoreBuilder::Sort() { return state_->WriteChunk(); }

absl::Status DatastoreBuilder::Finish() {
  State& state = *state_;
  if (state.num_tokens == 0) {
    return absl::FailedPreconditionError(
        fmt::format("{}: expected at least one token, found none", state.path));
  }
  TAHMIN_RETURN_IF_ERROR(state.WriteChunk());
  TAHMIN_RETURN_IF_ERROR(state.Align());
  TAHMIN_RETURN_IF_ERROR(state.WriteHeader());
  if (std::fclose(std::exchange(state.stream, nullptr)) != 0) return state.Failure();
  if (std::rename(state.partial_path.c_str(), state.path.c_str()) != 0) return state.Failure();
  state.partial_path.clear();
  return absl::OkStatus();
}

uint64_t DatastoreBuilder::num_tokens() const { return state_->num_tokens; }
uint64_t DatastoreBuilder::num_documents() const { return state_->num_documents; }
uint64_t DatastoreBuilder::num_chunks() const { return state_->table.size(); }
uint64_t DatastoreBuilder::file_bytes() const { return state_->offset; }

}  // namespace tahmin
