// Any bytes as a file of earlier outputs (first byte even) or as a datastore (odd). Checksums are
// made to fit, so that what they guard is reached; then `rest` drafts from what was accepted.
//   fuzz_draft_stores CORPUS tests/fuzz/corpus/fuzz_draft_stores
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "draft/datastore.h"
#include "draft/datastore_format.h"
#include "draft/rest.h"
#include "draft/suffix_store_file.h"

namespace {

constexpr int32_t kVocab = 64;

void ReadSuffixStore(std::vector<uint8_t> bytes) {
  if (bytes.size() >= 8) {
    const uint64_t checksum = XXH64(bytes.data(), bytes.size() - 8, 0);
    std::memcpy(bytes.data() + bytes.size() - 8, &checksum, 8);
  }
  const auto runs =
      tahmin::DecodeSuffixStore(bytes, {.path = "fuzz", .fingerprint = 7, .vocab_size = kVocab});
  if (!runs.ok()) return;
  size_t num_tokens = 0;
  for (const std::vector<int32_t>& run : *runs) {
    TAHMIN_CHECK(!run.empty());
    num_tokens += run.size();
    for (int32_t token : run) TAHMIN_CHECK(token >= 0 && token < kVocab);
  }
  TAHMIN_CHECK(num_tokens * 4 <= bytes.size());
}

void FitChecksum(std::vector<uint64_t>* words, size_t num_bytes) {
  namespace format = tahmin::datastore_format;
  auto* bytes = reinterpret_cast<uint8_t*>(words->data());
  format::Header header;
  if (num_bytes < sizeof(header)) return;
  std::memcpy(&header, bytes, sizeof(header));
  const bool has_table =
      header.num_chunks <= 16 && header.table_offset <= num_bytes &&
      header.num_chunks * sizeof(format::ChunkRow) <= num_bytes - header.table_offset;
  if (!has_table) return;
  std::vector<format::ChunkRow> table(header.num_chunks);
  if (!table.empty()) {
    std::memcpy(table.data(), bytes + header.table_offset, table.size() * sizeof(table[0]));
  }
  header.checksum = format::Checksum(header, table);
  std::memcpy(bytes, &header, sizeof(header));
}

void ReadDatastore(const uint8_t* data, size_t size) {
  std::vector<uint64_t> words(size / 8 + 1);  // Parse wants them aligned
  std::memcpy(words.data(), data, size);
  FitChecksum(&words, size);
  const auto store =
      tahmin::Datastore::Parse({reinterpret_cast<const uint8_t*>(words.data()), size}, "fuzz");
  if (!store.ok()) return;
  const auto rest = tahmin::MakeRest(**store);
  std::vector<int32_t> tokens = {1, 2};
  for (int32_t step = 0; step < 8; ++step) {
    const tahmin::SequenceView view{.tokens = tokens};
    if (step == 0) rest->Begin(view);
    const tahmin::DraftTree tree =
        rest->Draft(view, {.max_tokens = 8, .max_depth = 4, .max_width = 3});
    TAHMIN_CHECK(tree.size() <= 8);
    for (const tahmin::DraftNode& node : tree.nodes) {
      TAHMIN_CHECK(node.token >= 0 && static_cast<uint32_t>(node.token) < (*store)->vocab_size());
    }
    tokens.push_back(tree.empty() ? step : tree.nodes.front().token);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  if (data[0] % 2 == 0) {
    ReadSuffixStore(std::vector<uint8_t>(data + 1, data + size));
  } else {
    ReadDatastore(data + 1, size - 1);
  }
  return 0;
}
