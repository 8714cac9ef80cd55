#include "draft/suffix_store_file.h"

#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <xxhash.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tahmin {
namespace {

using testing::HasSubstr;
using Runs = std::vector<std::vector<int32_t>>;

const SuffixStoreExpectation kExpected = {"file", 0x0123456789abcdef, 1000};
const Runs kRuns = {{1, 2, 3}, {999}, {0, 0, 5, 6, 7, 8, 9}};

std::vector<uint8_t> GoodFile() { return EncodeSuffixStore(kExpected.fingerprint, kRuns); }

// A checksum that fits, so that what stands before is looked at.
void Seal(std::vector<uint8_t>* bytes) {
  const uint64_t checksum = XXH64(bytes->data(), bytes->size() - 8, 0);
  for (size_t i = 0; i < 8; ++i) {
    (*bytes)[bytes->size() - 8 + i] = static_cast<uint8_t>(checksum >> (8 * i));
  }
}

absl::Status Decode(const std::vector<uint8_t>& bytes) {
  return DecodeSuffixStore(bytes, kExpected).status();
}

TEST(SuffixStoreFile, HasTheLayoutThatIsDocumented) {
  const std::vector<uint8_t> bytes = EncodeSuffixStore(0x0102030405060708, Runs{{7, 258}});
  const std::vector<uint8_t> expected = {
      'T', 'A', 'H', 'M', 'S', 'U', 'F', 'X', 1, 0, 0, 0, 0, 0, 0, 0,  // version, 0
      8,   7,   6,   5,   4,   3,   2,   1,                            // fingerprint
      1,   0,   0,   0,   0,   0,   0,   0,   2, 0, 0, 0, 0, 0, 0, 0,  // runs, tokens
      2,   0,   0,   0,   7,   0,   0,   0,   2, 1, 0, 0};
  ASSERT_EQ(bytes.size(), expected.size() + 8);
  EXPECT_EQ(std::vector<uint8_t>(bytes.begin(), bytes.end() - 8), expected);
  uint64_t checksum = 0;
  for (size_t i = 0; i < 8; ++i) {
    checksum |= static_cast<uint64_t>(bytes[expected.size() + i]) << (8 * i);
  }
  EXPECT_EQ(checksum, XXH64(expected.data(), expected.size(), 0));
}

TEST(SuffixStoreFile, ComesBackAsItWas) {
  const auto runs = DecodeSuffixStore(GoodFile(), kExpected);
  ASSERT_TRUE(runs.ok()) << runs.status();
  EXPECT_EQ(*runs, kRuns);
  const auto none = DecodeSuffixStore(EncodeSuffixStore(kExpected.fingerprint, {}), kExpected);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_TRUE(none->empty());
}

TEST(SuffixStoreFile, EveryTruncationIsRefused) {
  const std::vector<uint8_t> whole = GoodFile();
  for (size_t length = 0; length < whole.size(); ++length) {
    // A copy of exactly this size, so that a sanitizer sees the end.
    const std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<int64_t>(length));
    ASSERT_EQ(Decode(cut).code(), absl::StatusCode::kDataLoss) << length;
  }
  std::vector<uint8_t> longer = whole;
  longer.push_back(0);
  EXPECT_EQ(Decode(longer).code(), absl::StatusCode::kDataLoss);
}

TEST(SuffixStoreFile, EveryFlippedBitIsRefused) {
  const std::vector<uint8_t> whole = GoodFile();
  for (size_t i = 0; i < whole.size() * 8; ++i) {
    std::vector<uint8_t> bytes = whole;
    bytes[i / 8] ^= static_cast<uint8_t>(1u << (i % 8));
    const absl::Status status = Decode(bytes);
    ASSERT_FALSE(status.ok()) << "bit " << i;
    ASSERT_THAT(std::string(status.message()), HasSubstr("file")) << "bit " << i;
  }
}

// Damage that a program made, with a checksum that fits: an error, or runs within all bounds.
TEST(SuffixStoreFile, SealedDamageGivesAnErrorOrSoundRuns) {
  std::mt19937 random(1);
  const std::vector<uint8_t> whole = GoodFile();
  int32_t num_read = 0, num_refused = 0;
  for (int32_t round = 0; round < 20000; ++round) {
    std::vector<uint8_t> bytes = whole;
    for (uint32_t flip = 0; flip < 1 + random() % 3; ++flip) {
      bytes[random() % bytes.size()] ^= static_cast<uint8_t>(1 + random() % 255);
    }
    if (random() % 4 == 0) bytes.resize(48 + random() % (bytes.size() - 48));
    Seal(&bytes);
    const auto runs = DecodeSuffixStore(bytes, kExpected);
    ++(runs.ok() ? num_read : num_refused);
    if (!runs.ok()) continue;
    size_t num_tokens = 0;
    for (const std::vector<int32_t>& run : *runs) {
      ASSERT_FALSE(run.empty());
      num_tokens += run.size();
      for (int32_t token : run) ASSERT_TRUE(token >= 0 && token < kExpected.vocab_size);
    }
    ASSERT_EQ(bytes.size(), 48 + 4 * (runs->size() + num_tokens));
  }
  // Both ways are really taken.
  EXPECT_GT(num_read, 500);
  EXPECT_GT(num_refused, 5000);
}

TEST(SuffixStoreFile, ErrorsSayWhatWasExpectedAndFound) {
  const auto message_of = [](size_t offset, uint8_t value) {
    std::vector<uint8_t> bytes = GoodFile();
    bytes[offset] = value;
    Seal(&bytes);
    return std::string(Decode(bytes).message());
  };
  EXPECT_THAT(message_of(0, 'X'), HasSubstr("does not begin with TAHMSUFX"));
  EXPECT_THAT(message_of(8, 2), HasSubstr("expected version 1, found 2"));
  EXPECT_THAT(message_of(12, 9), HasSubstr("expected 0 at byte 12, found 9"));
  EXPECT_THAT(message_of(16, 0xee), HasSubstr("found 0123456789abcdee"));
  EXPECT_THAT(message_of(24, 4), HasSubstr("expected 4 runs of 11 tokens, found 3 of 11"));
  EXPECT_THAT(message_of(32, 12), HasSubstr("expected 3 runs of 12 tokens, found 3 of 11"));
  EXPECT_THAT(message_of(40, 0), HasSubstr("expected a run of 1 to 13 tokens at byte 40, found"));
  EXPECT_THAT(message_of(40, 200), HasSubstr("at byte 40, found one of 200"));
  EXPECT_THAT(message_of(47, 1),
              HasSubstr("expected a token below 1000 at byte 44, found 16777217"));
  std::vector<uint8_t> unsealed = GoodFile();
  unsealed[44] ^= 1;
  EXPECT_THAT(std::string(Decode(unsealed).message()), HasSubstr("have checksum"));
}

TEST(SuffixStoreFile, IsWrittenBesideAndRenamed) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "suffix_store_file_test";
  fs::remove_all(folder);
  fs::create_directory(folder);
  const std::string path = folder / "store";
  ASSERT_TRUE(WriteSuffixStoreFile(path, GoodFile()).ok());
  const auto bytes = ReadSuffixStoreFile(path);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, GoodFile());
  // A folder stands where the file should go: an error, the folder stays, nothing else is left.
  fs::remove(path);
  fs::create_directories(fs::path(path) / "inside");
  EXPECT_FALSE(WriteSuffixStoreFile(path, GoodFile()).ok());
  EXPECT_TRUE(fs::exists(fs::path(path) / "inside"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
  fs::remove_all(folder);
}

TEST(SuffixStoreFile, MissingFileIsNotFound) {
  EXPECT_EQ(ReadSuffixStoreFile(testing::TempDir() + "/no_such_store").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace tahmin
