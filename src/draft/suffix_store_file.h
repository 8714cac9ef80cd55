// The file of a suffix store (suffix_store.h): outputs as runs of token ids. Little-endian; the
// format is described in docs/suffix_store_format.md:
//   offset  bytes  what
//   0       8      "TAHMSUFX"
//   8       4      version, 1
//   12      4      0
//   16      8      fingerprint of the tokenizer
//   24      8      number of runs
//   32      8      number of tokens of all runs
//   40             for each run, the oldest first: its number of tokens (4 bytes, not 0), its
//   tokens size-8  8      XXH64 with seed 0 of all bytes before
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tahmin {

struct SuffixStoreExpectation {
  std::string path;  // for messages
  uint64_t fingerprint = 0;
  int32_t vocab_size = 0;
};

std::vector<uint8_t> EncodeSuffixStore(uint64_t fingerprint,
                                       std::span<const std::vector<int32_t>> runs);

// Checks every byte. DATA_LOSS: not such a file, cut short or damaged; FAILED_PRECONDITION: another
// version or tokenizer. Messages say what was expected, what was found, and where.
absl::StatusOr<std::vector<std::vector<int32_t>>> DecodeSuffixStore(
    std::span<const uint8_t> bytes, const SuffixStoreExpectation& expected);

// NOT_FOUND: there is no such file. At most kLargestSuffixStoreFile bytes are read.
constexpr int64_t kLargestSuffixStoreFile = int64_t{1} << 30;
absl::StatusOr<std::vector<uint8_t>> ReadSuffixStoreFile(const std::string& path);
// To a temporary file beside it, which is renamed.
absl::Status WriteSuffixStoreFile(const std::string& path, std::span<const uint8_t> bytes);

}  // namespace tahmin
