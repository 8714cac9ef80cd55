// The bytes of a datastore file, shared by its writer (datastore_builder.cc) and its reader
// (datastore.cc); docs/datastore_format.md is the same in prose. Little-endian:
//
//   Header (64 bytes) | for each chunk: entries u32[], suffixes u32[] | chunk table | end of file
//
// Entries are token ids, each document followed by kSeparator. Suffixes are the positions of all
// entries but the separators, in the order of what begins there, ids compared as numbers.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

namespace tahmin::datastore_format {

static_assert(std::endian::native == std::endian::little, "the file is mapped as it is");

inline constexpr char kMagic[8] = {'T', 'A', 'H', 'M', 'I', 'N', 'D', 'S'};
inline constexpr uint32_t kVersion = 1;
// Behind each document, and larger than any id: three bytes are what the sort takes of an id.
inline constexpr uint32_t kSeparator = 0xFFFFFF;
inline constexpr uint64_t kAlignment = 64;  // of every array in the file
// Three bytes an entry, counted by the 32-bit sort.
inline constexpr uint64_t kMostChunkEntries = INT32_MAX / 3;
inline constexpr uint64_t kMostChunks = 1 << 16;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t vocab_size;   // every id is below it
  uint64_t fingerprint;  // of the tokenizer that made the ids
  uint64_t num_tokens;   // without separators
  uint64_t num_documents;
  uint64_t table_offset;
  uint64_t num_chunks;
  uint64_t checksum;  // Checksum() of this header and the table
};
static_assert(sizeof(Header) == 64);

struct ChunkRow {
  uint64_t entries_offset;  // in bytes from the start of the file
  uint64_t num_entries;     // tokens and separators
  uint64_t suffixes_offset;
  uint64_t num_suffixes;  // tokens
};
static_assert(sizeof(ChunkRow) == 32);

// FNV-1a, 64 bits, over the header with a checksum of zero and the chunk table. The arrays are not
// in it: reading them all would cost more than a damaged draft does.
inline uint64_t Checksum(Header header, std::span<const ChunkRow> table) {
  uint64_t hash = 0xcbf29ce484222325ull;
  const auto mix = [&hash](const void* data, size_t num_bytes) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < num_bytes; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3ull;
  };
  header.checksum = 0;
  mix(&header, sizeof(header));
  mix(table.data(), table.size_bytes());
  return hash;
}

}  // namespace tahmin::datastore_format
