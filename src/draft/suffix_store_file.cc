#include "draft/suffix_store_file.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

#include "base/file_replacement.h"
#include "base/mapped_file.h"
#include "base/status_macros.h"

namespace tahmin {
namespace {

constexpr std::string_view kMagic = "TAHMSUFX";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 40;
constexpr size_t kChecksumBytes = 8;

template <typename T>
void Put(T value, std::vector<uint8_t>* bytes) {
  for (size_t i = 0; i < sizeof(T); ++i) bytes->push_back(static_cast<uint8_t>(value >> (8 * i)));
}

template <typename T>
T Get(std::span<const uint8_t> bytes, size_t offset) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(bytes[offset + i]) << (8 * i);
  return value;
}

absl::Status Damaged(const SuffixStoreExpectation& expected, std::string_view what) {
  return absl::DataLossError(fmt::format("suffix store {}: {}", expected.path, what));
}

absl::Status CheckHeader(std::span<const uint8_t> bytes, const SuffixStoreExpectation& expected) {
  const size_t magic_bytes = std::min(bytes.size(), kMagic.size());
  if (magic_bytes == 0 || std::memcmp(bytes.data(), kMagic.data(), magic_bytes) != 0) {
    return Damaged(expected, fmt::format("does not begin with {}, so it is none", kMagic));
  }
  if (bytes.size() < kHeaderBytes + kChecksumBytes) {
    return Damaged(expected, fmt::format("truncated: expected at least {} bytes, found {}",
                                         kHeaderBytes + kChecksumBytes, bytes.size()));
  }
  if (const auto version = Get<uint32_t>(bytes, 8); version != kVersion) {
    return absl::FailedPreconditionError(fmt::format(
        "suffix store {}: expected version {}, found {}", expected.path, kVersion, version));
  }
  const size_t content_bytes = bytes.size() - kChecksumBytes;
  const auto stored = Get<uint64_t>(bytes, content_bytes);
  if (const uint64_t computed = XXH64(bytes.data(), content_bytes, 0); computed != stored) {
    return Damaged(expected, fmt::format("damaged or truncated: its {} bytes have checksum "
                                         "{:016x}, expected {:016x}",
                                         bytes.size(), computed, stored));
  }
  if (const auto zero = Get<uint32_t>(bytes, 12); zero != 0) {
    return Damaged(expected, fmt::format("expected 0 at byte 12, found {}", zero));
  }
  if (const auto found = Get<uint64_t>(bytes, 16); found != expected.fingerprint) {
    return absl::FailedPreconditionError(
        fmt::format("suffix store {} is of another tokenizer: expected fingerprint {:016x}, found "
                    "{:016x}",
                    expected.path, expected.fingerprint, found));
  }
  return absl::OkStatus();
}

// One run at *offset, which moves behind it. `bytes` end where the checksum begins.
absl::StatusOr<std::vector<int32_t>> DecodeRun(std::span<const uint8_t> bytes, size_t* offset,
                                               const SuffixStoreExpectation& expected) {
  const size_t bytes_left = bytes.size() - *offset;
  const uint64_t length = bytes_left < 4 ? 0 : Get<uint32_t>(bytes, *offset);
  if (length == 0 || bytes_left < 4 + 4 * length) {
    return Damaged(expected,
                   fmt::format("expected a run of 1 to {} tokens at byte {}, found one of {}",
                               std::max<size_t>(bytes_left / 4, 1) - 1, *offset, length));
  }
  *offset += 4;
  std::vector<int32_t> run(length);
  for (int32_t& token : run) {
    const auto id = Get<uint32_t>(bytes, *offset);
    if (id >= static_cast<uint32_t>(expected.vocab_size)) {
      return Damaged(expected, fmt::format("expected a token below {} at byte {}, found {}",
                                           expected.vocab_size, *offset, id));
    }
    token = static_cast<int32_t>(id);
    *offset += 4;
  }
  return run;
}

}  // namespace

std::vector<uint8_t> EncodeSuffixStore(uint64_t fingerprint,
                                       std::span<const std::vector<int32_t>> runs) {
  uint64_t num_tokens = 0;
  for (const std::vector<int32_t>& run : runs) num_tokens += run.size();
  std::vector<uint8_t> bytes(kMagic.begin(), kMagic.end());
  bytes.reserve(kHeaderBytes + 4 * (runs.size() + num_tokens) + kChecksumBytes);
  Put<uint32_t>(kVersion, &bytes);
  Put<uint32_t>(0, &bytes);
  Put<uint64_t>(fingerprint, &bytes);
  Put<uint64_t>(runs.size(), &bytes);
  Put<uint64_t>(num_tokens, &bytes);
  for (const std::vector<int32_t>& run : runs) {
    Put<uint32_t>(static_cast<uint32_t>(run.size()), &bytes);
    for (int32_t token : run) Put<uint32_t>(static_cast<uint32_t>(token), &bytes);
  }
  Put<uint64_t>(XXH64(bytes.data(), bytes.size(), 0), &bytes);
  return bytes;
}

absl::StatusOr<std::vector<std::vector<int32_t>>> DecodeSuffixStore(
    std::span<const uint8_t> bytes, const SuffixStoreExpectation& expected) {
  TAHMIN_RETURN_IF_ERROR(CheckHeader(bytes, expected));
  const auto num_runs = Get<uint64_t>(bytes, 24);
  const auto num_tokens = Get<uint64_t>(bytes, 32);
  const std::span<const uint8_t> content = bytes.first(bytes.size() - kChecksumBytes);
  std::vector<std::vector<int32_t>> runs;
  uint64_t tokens_found = 0;
  for (size_t offset = kHeaderBytes; offset < content.size();) {
    TAHMIN_ASSIGN_OR_RETURN(runs.emplace_back(), DecodeRun(content, &offset, expected));
    tokens_found += runs.back().size();
  }
  if (runs.size() != num_runs || tokens_found != num_tokens) {
    return Damaged(expected, fmt::format("expected {} runs of {} tokens, found {} of {}", num_runs,
                                         num_tokens, runs.size(), tokens_found));
  }
  return runs;
}

absl::StatusOr<std::vector<uint8_t>> ReadSuffixStoreFile(const std::string& path) {
  TAHMIN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  if (static_cast<int64_t>(file.bytes().size()) > kLargestSuffixStoreFile) {
    return absl::DataLossError(fmt::format("suffix store {}: expected at most {} bytes, found {}",
                                           path, kLargestSuffixStoreFile, file.bytes().size()));
  }
  return std::vector<uint8_t>(file.bytes().begin(), file.bytes().end());
}

absl::Status WriteSuffixStoreFile(const std::string& path, std::span<const uint8_t> bytes) {
  // What was generated may be private.
  return ReplaceFile(path, bytes, FileReaders::kOwner);
}

}  // namespace tahmin
