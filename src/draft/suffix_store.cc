#include "draft/suffix_store.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "draft/suffix_store_file.h"

namespace tahmin {
namespace {

// What a token usually takes, rather more than less: decides when a new generation begins. That the
// bound holds does not hang on it.
constexpr int64_t kBytesPerToken = 128;

}  // namespace

SuffixStore::SuffixStore(const SuffixStoreOptions& options) : options_(options) {
  for (auto& generation : generations_) generation = std::make_unique<Generation>();
}

absl::StatusOr<std::unique_ptr<SuffixStore>> SuffixStore::Create(
    const SuffixStoreOptions& options) {
  if (options.max_bytes < kSmallestBytes || options.max_bytes > kLargestBytes) {
    return absl::InvalidArgumentError(fmt::format("suffix store of {} bytes; expected {} to {}",
                                                  options.max_bytes, kSmallestBytes,
                                                  kLargestBytes));
  }
  if (options.vocab_size < 1) {
    return absl::InvalidArgumentError(fmt::format(
        "suffix store for a vocabulary of {} ids; expected at least 1", options.vocab_size));
  }
  return std::unique_ptr<SuffixStore>(new SuffixStore(options));
}

absl::StatusOr<std::unique_ptr<SuffixStore>> SuffixStore::Load(const std::string& path,
                                                               const SuffixStoreOptions& options) {
  TAHMIN_ASSIGN_OR_RETURN(std::unique_ptr<SuffixStore> store, Create(options));
  TAHMIN_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, ReadSuffixStoreFile(path));
  TAHMIN_ASSIGN_OR_RETURN(
      const std::vector<std::vector<int32_t>> outputs,
      DecodeSuffixStore(bytes, {path, options.fingerprint, options.vocab_size}));
  for (const std::vector<int32_t>& output : outputs) store->Add(output);
  return store;
}

absl::Status SuffixStore::Save(const std::string& path) const {
  std::vector<std::vector<int32_t>> outputs(1);
  for (int32_t i = kNumTexts - 1; i >= 0; --i) {
    const ChunkedArray<int32_t>& tokens = generations_[i]->tokens;
    for (int32_t t = 0; t < tokens.size(); ++t) {
      if (tokens[t] != kSeparator) {
        outputs.back().push_back(tokens[t]);
      } else if (!outputs.back().empty()) {
        outputs.emplace_back();
      }
    }
  }
  if (outputs.back().empty()) outputs.pop_back();
  return WriteSuffixStoreFile(path, EncodeSuffixStore(options_.fingerprint, outputs));
}

void SuffixStore::Add(std::span<const int32_t> output) {
  const int64_t half = options_.max_bytes / 2;
  output = output.last(std::min<size_t>(output.size(), half / 2 / kBytesPerToken));
  const int64_t added = static_cast<int64_t>(output.size()) * kBytesPerToken;
  if (generations_[0]->BytesUsed() + added > half) BeginGeneration();
  for (int32_t token : output) {
    Append(token >= 0 && token < options_.vocab_size ? token : kSeparator);
  }
  Append(kSeparator);
  ++version_;
}

// Whatever the text is like, the bound holds behind every token. The older generation goes first,
// so an output is not torn.
void SuffixStore::Append(int32_t token) {
  generations_[0]->tokens.push_back(token);
  generations_[0]->text.Append(token);
  for (int32_t i = kNumTexts - 1; i >= 0 && Bytes() > options_.max_bytes; --i) {
    generations_[i] = std::make_unique<Generation>();
  }
}

void SuffixStore::BeginGeneration() {
  generations_[1] = std::move(generations_[0]);
  generations_[0] = std::make_unique<Generation>();
}

int64_t SuffixStore::Bytes() const {
  int64_t bytes = sizeof(SuffixStore);
  for (const auto& generation : generations_) {
    bytes += static_cast<int64_t>(sizeof(Generation)) + generation->BytesUsed();
  }
  return bytes;
}

int64_t SuffixStore::num_tokens() const {
  int64_t num_tokens = 0;
  for (const auto& generation : generations_) num_tokens += generation->tokens.size();
  return num_tokens;
}

}  // namespace tahmin
