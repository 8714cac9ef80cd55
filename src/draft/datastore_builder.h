// Writes a datastore (datastore.h): documents in, one after the other; tokens and suffix array out.
// The tokens are cut into chunks of at most `chunk_entries`; a chunk is sorted and written as soon
// as it is full, so memory is bounded by one chunk: 4 bytes an entry for the tokens, 3 for the
// sort's text, 12 for its suffix array, 19 in all. The default of 128 Mi entries takes 2.6 GB,
// whatever the number of chunks; every further chunk costs each look-up another binary search.
// A document goes on in the next chunk where the end of one cuts it.
//
// The sort is libdivsufsort's, over bytes: ids are written as three big-endian bytes, in which byte
// order is number order, and of the sorted suffixes those that begin at an id are kept.
//
// The file is written under another name and renamed by Finish; without Finish nothing is left
// behind. After an error only destruction is legal. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tahmin {

struct DatastoreBuilderOptions {
  uint64_t fingerprint = 0;           // of the tokenizer
  int32_t vocab_size = 0;             // every id is below it; at most 2^24 - 1
  int64_t chunk_entries = 128 << 20;  // tokens and separators; 2 to 715,827,882
  // Called before and after each sort, with the entries that are sorted and written so far and
  // those that are known so far. May be empty.
  std::function<void(uint64_t num_sorted, uint64_t num_entries)> progress = {};
};

class DatastoreBuilder {
 public:
  static absl::StatusOr<std::unique_ptr<DatastoreBuilder>> Create(const std::string& path,
                                                                  DatastoreBuilderOptions options);
  ~DatastoreBuilder();
  DatastoreBuilder(const DatastoreBuilder&) = delete;
  DatastoreBuilder& operator=(const DatastoreBuilder&) = delete;

  // INVALID_ARGUMENT for an id outside the vocabulary. No continuation reaches beyond the document.
  // An empty one is none.
  absl::Status AddDocument(std::span<const int32_t> tokens);

  // Sorts what is left, which takes most of the time of Finish.
  absl::Status Sort();

  // Sorts what is left and gives the file its name. FAILED_PRECONDITION without any token.
  absl::Status Finish();

  uint64_t num_tokens() const;
  uint64_t num_documents() const;
  uint64_t num_chunks() const;  // written so far
  uint64_t file_bytes() const;  // written so far

 private:
  DatastoreBuilder();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tahmin
