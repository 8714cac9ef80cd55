#include "draft/datastore.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "draft/datastore_builder.h"
#include "draft/datastore_fixture.h"
#include "draft/datastore_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tahmin {
namespace {

using testing::HasSubstr;
namespace format = datastore_format;

TEST(Datastore, HoldsWhatTheBuilderWasGiven) {
  const TestStore file({{1, 2, 3}, {4, 5}, {}, {6}}, {.fingerprint = 77, .vocab_size = 10});
  const Datastore& store = file.store();
  EXPECT_EQ(store.fingerprint(), 77u);
  EXPECT_EQ(store.vocab_size(), 10u);
  EXPECT_EQ(store.num_tokens(), 6u);
  EXPECT_EQ(store.num_documents(), 3u);  // an empty document is none
  ASSERT_EQ(store.chunks().size(), 1u);
  const std::vector<uint32_t> expected = {
      1, 2, 3, format::kSeparator, 4, 5, format::kSeparator, 6, format::kSeparator};
  EXPECT_TRUE(std::ranges::equal(store.chunks()[0].entries(), expected));
  EXPECT_EQ(store.chunks()[0].num_suffixes(), 6u);
}

// All suffixes, the ones that begin at a token, compared as numbers.
std::vector<uint64_t> SlowSuffixes(std::span<const uint32_t> entries) {
  std::vector<uint64_t> positions;
  for (uint64_t i = 0; i < entries.size(); ++i) {
    if (entries[i] != format::kSeparator) positions.push_back(i);
  }
  std::ranges::sort(positions, [entries](uint64_t a, uint64_t b) {
    return std::lexicographical_compare(entries.begin() + a, entries.end(), entries.begin() + b,
                                        entries.end());
  });
  return positions;
}

TEST(Datastore, SuffixesAreInNumberOrder) {
  // Ids whose bytes order differently when the low byte comes first, and runs that are all alike.
  const int32_t vocab_size = 200000;
  std::vector<std::vector<int32_t>> documents = {
      {255, 256, 65535, 65536, 255, 65536, 0, 199999}, {7, 7, 7, 7, 7, 7, 7, 7}, {7, 7, 7}};
  RandomTokens random(3);
  for (int i = 0; i < 20; ++i) documents.push_back(random.Text(50, 3));
  for (const int64_t chunk_entries : {64, 100, 1 << 20}) {
    const TestStore file(documents, {.vocab_size = vocab_size, .chunk_entries = chunk_entries});
    for (const DatastoreChunk& chunk : file.store().chunks()) {
      EXPECT_LE(chunk.entries().size(), static_cast<uint64_t>(chunk_entries));
      const std::vector<uint64_t> expected = SlowSuffixes(chunk.entries());
      ASSERT_EQ(chunk.num_suffixes(), expected.size());
      for (uint64_t rank = 0; rank < expected.size(); ++rank) {
        const auto text = chunk.Continuation(rank, 0, 8);
        const auto slow = chunk.entries().subspan(expected[rank]);
        ASSERT_TRUE(std::equal(text.begin(), text.end(), slow.begin())) << rank;
      }
    }
  }
}

TEST(Datastore, FindEqualsAScanOfAllPositions) {
  RandomTokens random(5);
  for (const int32_t alphabet : {2, 5, 40}) {
    std::vector<std::vector<int32_t>> documents;
    for (int i = 0; i < 12; ++i) documents.push_back(random.Text(1 + i * 9, alphabet));
    const TestStore file(documents, {.vocab_size = alphabet, .chunk_entries = 150});
    ASSERT_GT(file.store().chunks().size(), 3u);
    for (int round = 0; round < 300; ++round) {
      const std::vector<int32_t> pattern = random.Text(1 + round % 6, alphabet + 1);
      for (const DatastoreChunk& chunk : file.store().chunks()) {
        const auto entries = chunk.entries();
        uint64_t expected = 0;
        for (size_t at = 0; at + pattern.size() <= entries.size(); ++at) {
          expected += std::equal(pattern.begin(), pattern.end(), entries.begin() + at,
                                 [](int32_t a, uint32_t b) { return uint32_t(a) == b; });
        }
        const SuffixRange range = chunk.Find(pattern);
        ASSERT_EQ(range.size(), expected);
        for (uint64_t rank = range.begin; rank < range.end; ++rank) {
          const auto text = chunk.Continuation(rank, 0, pattern.size());
          ASSERT_TRUE(std::ranges::equal(text, pattern,
                                         [](uint32_t a, int32_t b) { return a == uint32_t(b); }));
        }
      }
    }
  }
}

TEST(Datastore, ContinuationsEndWithTheirDocument) {
  const TestStore file({{1, 2, 3}, {4, 5}}, {.vocab_size = 10});
  const DatastoreChunk& chunk = file.store().chunks()[0];
  const std::vector<int32_t> two = {2}, three = {3}, across = {3, 4};
  EXPECT_EQ(chunk.Continuation(chunk.Find(two).begin, 1, 10).size(), 1u);
  EXPECT_EQ(chunk.Continuation(chunk.Find(three).begin, 1, 10).size(), 0u);
  EXPECT_EQ(chunk.Continuation(chunk.Find(three).begin, 100, 10).size(), 0u);
  EXPECT_EQ(chunk.Find(across).size(), 0u);
}

TEST(Datastore, ADocumentGoesOnInTheNextChunk) {
  std::vector<int32_t> text;
  for (int i = 0; i < 100; ++i) text.push_back(i);
  const TestStore file({text}, {.vocab_size = 100, .chunk_entries = 11});
  EXPECT_EQ(file.store().chunks().size(), 10u);
  EXPECT_EQ(file.store().num_tokens(), 100u);
  EXPECT_EQ(file.store().num_documents(), 1u);
  std::vector<int32_t> joined;
  for (const DatastoreChunk& chunk : file.store().chunks()) {
    joined.insert(joined.end(), chunk.entries().begin(), chunk.entries().end() - 1);
    EXPECT_EQ(chunk.entries().back(), format::kSeparator);
  }
  EXPECT_EQ(joined, text);
}

TEST(Datastore, AnotherTokenizerIsRefusedWithBothFingerprints) {
  const TestStore file({{1}}, {.fingerprint = 0xabc, .vocab_size = 10});
  EXPECT_TRUE(file.store().CheckTokenizer(0xabc).ok());
  const absl::Status status = file.store().CheckTokenizer(0xdef);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("0000000000000abc"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("0000000000000def"));
}

TEST(Datastore, WhatIsNoStoreIsRefusedWithItsReason) {
  const TestStore file({{1, 2, 3}, {1, 2}}, {.vocab_size = 10});
  const std::vector<uint8_t> whole = file.bytes();
  const auto refused = [](const std::vector<uint8_t>& bytes) {
    return Datastore::Parse(bytes, "name").status();
  };
  ASSERT_TRUE(refused(whole).ok()) << refused(whole);
  for (size_t length = 0; length < whole.size(); ++length) {
    const absl::Status status = refused({whole.begin(), whole.begin() + length});
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << length << ": " << status;
    ASSERT_THAT(std::string(status.message()), HasSubstr("truncated: expected"));
  }
  std::vector<uint8_t> longer = whole;
  longer.push_back(0);
  EXPECT_EQ(refused(longer).code(), absl::StatusCode::kInvalidArgument);
  std::vector<uint8_t> magic = whole;
  magic[0] = 'X';
  EXPECT_THAT(std::string(refused(magic).message()), HasSubstr("not a datastore"));
  std::vector<uint8_t> version = whole;
  version[8] = 9;
  EXPECT_EQ(refused(version).code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(refused(version).message()), HasSubstr("expected datastore version 1"));
  std::vector<uint8_t> fingerprint = whole;
  fingerprint[16] ^= 1;
  EXPECT_EQ(refused(fingerprint).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(refused(fingerprint).message()), HasSubstr("checksum"));
}

// The table with a field replaced and the checksum made right again: the bounds themselves.
TEST(Datastore, RowsThatLeaveTheFileAreRefused) {
  const TestStore file({{1, 2, 3}, {1, 2}}, {.vocab_size = 10});
  format::Header header;
  std::memcpy(&header, file.bytes().data(), sizeof(header));
  format::ChunkRow row;
  std::memcpy(&row, &file.bytes()[header.table_offset], sizeof(row));
  const auto load = [&](const format::ChunkRow& changed) {
    std::vector<uint8_t> bytes = file.bytes();
    format::Header checked = header;
    checked.checksum = format::Checksum(header, {&changed, 1});
    std::memcpy(bytes.data(), &checked, sizeof(checked));
    std::memcpy(&bytes[header.table_offset], &changed, sizeof(changed));
    return Datastore::Parse(bytes, "name").status();
  };
  ASSERT_TRUE(load(row).ok()) << load(row);
  for (uint64_t format::ChunkRow::*field :
       {&format::ChunkRow::entries_offset, &format::ChunkRow::num_entries,
        &format::ChunkRow::suffixes_offset, &format::ChunkRow::num_suffixes}) {
    for (const uint64_t value : {uint64_t{4}, uint64_t{1} << 20, uint64_t{1} << 31,
                                 uint64_t{1} << 62, UINT64_MAX, UINT64_MAX - 63}) {
      format::ChunkRow changed = row;
      changed.*field = value;
      EXPECT_EQ(load(changed).code(), absl::StatusCode::kInvalidArgument) << value;
    }
  }
}

TEST(DatastoreBuilder, WrongArgumentsAreRefused) {
  const std::string path = TestPath("refused");
  for (const int64_t entries : {int64_t{-1}, int64_t{1}, int64_t{1} << 31}) {
    EXPECT_EQ(
        DatastoreBuilder::Create(path, {.vocab_size = 5, .chunk_entries = entries}).status().code(),
        absl::StatusCode::kInvalidArgument);
  }
  for (const int32_t vocab_size : {0, -1, 1 << 24}) {
    EXPECT_EQ(DatastoreBuilder::Create(path, {.vocab_size = vocab_size}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  auto builder = DatastoreBuilder::Create(path, {.vocab_size = 5});
  ASSERT_TRUE(builder.ok()) << builder.status();
  const std::vector<int32_t> large = {1, 5}, negative = {-1};
  EXPECT_EQ((*builder)->AddDocument(large).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*builder)->AddDocument(negative).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*builder)->Finish().code(), absl::StatusCode::kFailedPrecondition);
  builder->reset();
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(DatastoreBuilder::Create("/nowhere/store", {.vocab_size = 5}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(DatastoreBuilder, ANameIsGivenToACompleteFileOnly) {
  const std::string path = TestPath("complete");
  std::ofstream(path) << "before";
  const auto num_partial = [&path] {
    const std::filesystem::path whole = path;
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(whole.parent_path())) {
      const std::string name = entry.path().filename();
      count += name.starts_with(whole.filename().string()) && name.ends_with(".part");
    }
    return count;
  };
  const std::vector<int32_t> text = {1, 2, 3, 4};
  {
    auto builder = DatastoreBuilder::Create(path, {.vocab_size = 5, .chunk_entries = 3});
    ASSERT_TRUE(builder.ok()) << builder.status();
    ASSERT_TRUE((*builder)->AddDocument(text).ok());
    EXPECT_EQ(num_partial(), 1);
  }
  EXPECT_EQ(num_partial(), 0);
  EXPECT_EQ(std::filesystem::file_size(path), 6u);
  std::vector<std::pair<uint64_t, uint64_t>> progress;
  auto builder = DatastoreBuilder::Create(
      path, {.vocab_size = 5, .chunk_entries = 3, .progress = [&](uint64_t done, uint64_t total) {
               progress.emplace_back(done, total);
             }});
  ASSERT_TRUE(builder.ok()) << builder.status();
  ASSERT_TRUE((*builder)->AddDocument(text).ok());
  ASSERT_TRUE((*builder)->Finish().ok());
  EXPECT_EQ(num_partial(), 0);
  const std::vector<std::pair<uint64_t, uint64_t>> expected = {{0, 3}, {3, 3}, {3, 6}, {6, 6}};
  EXPECT_EQ(progress, expected);
  const auto store = Datastore::Open(path);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->num_tokens(), 4u);
  EXPECT_EQ((*store)->file_bytes(), std::filesystem::file_size(path));
  std::filesystem::remove(path);
}

TEST(Datastore, FilesThatAreNoneAreRefused) {
  EXPECT_EQ(Datastore::Open("/nowhere/store").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Datastore::Open("/").status().code(), absl::StatusCode::kInvalidArgument);
  const std::string path = TestPath("empty");
  std::ofstream(path).flush();
  EXPECT_EQ(Datastore::Open(path).status().code(), absl::StatusCode::kDataLoss);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tahmin
