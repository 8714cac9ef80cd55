// A datastore: token texts with their suffix array, so that every place where a few tokens occur is
// found by binary search. Written by DatastoreBuilder (`tahmin datastore build`), read by the
// drafter `rest`. The file is memory-mapped; every count, offset and length is checked when it is
// opened, every suffix position when it is used, so that damaged bytes give an error or a poor
// draft, never a read outside the file.
//
// Immutable after Open; any thread may search. Views live as long as the Datastore. The ids mean
// nothing under another vocabulary: CheckTokenizer before drafting from them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mapped_file.h"

namespace tahmin {

// Ranks in a suffix array: those of the suffixes that begin with a pattern.
struct SuffixRange {
  uint64_t begin = 0, end = 0;

  uint64_t size() const { return end - begin; }
};

class DatastoreChunk {
 public:
  DatastoreChunk(std::span<const uint32_t> entries, std::span<const uint32_t> suffixes,
                 uint32_t vocab_size)
      : entries_(entries), suffixes_(suffixes), vocab_size_(vocab_size) {}

  // O(|pattern| log n). Ids of the pattern that no text holds are legal: they occur nowhere.
  SuffixRange Find(std::span<const int32_t> pattern) const;

  // What follows the first `skip` tokens of the suffix of that rank: at most `length` tokens, fewer
  // where the document ends, all below vocab_size. `rank` < num_suffixes.
  std::span<const uint32_t> Continuation(uint64_t rank, uint64_t skip, uint64_t length) const;

  // Asks the processor for what Continuation will read, without waiting for it.
  void Prefetch(uint64_t rank, uint64_t skip) const;

  std::span<const uint32_t> entries() const { return entries_; }
  uint64_t num_suffixes() const { return suffixes_.size(); }

 private:
  // Negative: the suffix of that rank comes before every text that begins with `pattern`; zero: it
  // begins with it.
  int Compare(uint64_t rank, std::span<const int32_t> pattern) const;

  std::span<const uint32_t> entries_, suffixes_;
  uint32_t vocab_size_;
};

class Datastore {
 public:
  // Errors of the system for a file that cannot be opened, DATA_LOSS for one that is cut short or
  // whose checksum is wrong, UNIMPLEMENTED for another version, else INVALID_ARGUMENT.
  static absl::StatusOr<std::unique_ptr<Datastore>> Open(const std::string& path);
  // The same for bytes in memory, aligned to 8, which must outlive the result.
  static absl::StatusOr<std::unique_ptr<Datastore>> Parse(std::span<const uint8_t> bytes,
                                                          std::string display_name);
  Datastore(const Datastore&) = delete;
  Datastore& operator=(const Datastore&) = delete;

  // FAILED_PRECONDITION, with both numbers, when another tokenizer made the ids.
  absl::Status CheckTokenizer(uint64_t fingerprint) const;

  const std::string& path() const { return path_; }
  uint64_t file_bytes() const { return bytes_.size(); }
  uint64_t fingerprint() const { return fingerprint_; }
  uint32_t vocab_size() const { return vocab_size_; }  // every id of a draft is below it
  uint64_t num_tokens() const { return num_tokens_; }
  uint64_t num_documents() const { return num_documents_; }
  const std::vector<DatastoreChunk>& chunks() const { return chunks_; }

 private:
  Datastore() = default;
  absl::Status Load();

  std::string path_;
  MappedFile mapped_;  // empty: the bytes are somebody else's
  std::span<const uint8_t> bytes_;
  uint64_t fingerprint_ = 0, num_tokens_ = 0, num_documents_ = 0;
  uint32_t vocab_size_ = 0;
  std::vector<DatastoreChunk> chunks_;
};

}  // namespace tahmin
