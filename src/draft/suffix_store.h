// Earlier outputs that `suffix` may draft from, shared by all requests of an engine. Bounded in
// bytes: an automaton cannot forget, so the outputs stand in two of them, and when the newer one
// has taken half of the bytes the older is dropped whole, first in first out. So at least about
// half of the bound holds the latest outputs, whatever came before.
//
// The engine adds an output when its request ends. It lives as long as the engine and is not
// thread-safe: the decoding thread adds and reads. It can be saved and loaded
// (suffix_store_file.h, docs/suffix_store_format.md).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "draft/chunked_array.h"
#include "draft/suffix_automaton.h"

namespace tahmin {

struct SuffixStoreOptions {
  int64_t max_bytes = 64 << 20;  // of everything it holds; kSmallestBytes to kLargestBytes
  uint64_t fingerprint = 0;      // of the tokenizer: what the ids mean
  int32_t vocab_size = 0;        // ids in [0, vocab_size)
};

class SuffixStore {
 public:
  static constexpr int32_t kNumTexts = 2;
  static constexpr int64_t kSmallestBytes = int64_t{1} << 20;
  static constexpr int64_t kLargestBytes = int64_t{8} << 30;

  // INVALID_ARGUMENT says which option is out of its range.
  static absl::StatusOr<std::unique_ptr<SuffixStore>> Create(const SuffixStoreOptions& options);
  // The outputs of a file, the latest ones if not all fit. NOT_FOUND: there is no such file;
  // FAILED_PRECONDITION: it is of another tokenizer; DATA_LOSS: it is damaged or no such file.
  static absl::StatusOr<std::unique_ptr<SuffixStore>> Load(const std::string& path,
                                                           const SuffixStoreOptions& options);
  // Writes a temporary file beside `path` and renames it; an error leaves `path` as it was.
  absl::Status Save(const std::string& path) const;

  // O(tokens). Ids outside the vocabulary part the output, they are never drafted; of one that is
  // too long for half of the store the last tokens are taken.
  void Add(std::span<const int32_t> output);

  int64_t Bytes() const;  // never above max_bytes
  int64_t num_tokens() const;
  // Changes with every change of the texts; matches of another version are not valid.
  int64_t version() const { return version_; }
  // The outputs as one text each, kSeparator behind each of them: 0: the newer, 1: the older.
  static constexpr int32_t kSeparator = -1;
  const SuffixAutomaton& text(int32_t index) const { return generations_[index]->text; }

 private:
  struct Generation {
    ChunkedArray<int32_t> tokens;  // what `text` was made of
    SuffixAutomaton text;

    int64_t BytesUsed() const { return tokens.BytesUsed() + text.BytesUsed(); }
  };

  explicit SuffixStore(const SuffixStoreOptions& options);
  void Append(int32_t token);
  void BeginGeneration();

  const SuffixStoreOptions options_;
  std::array<std::unique_ptr<Generation>, kNumTexts> generations_;  // the newer first
  int64_t version_ = 0;
};

}  // namespace tahmin
