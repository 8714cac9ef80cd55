// Files read, mapped and replaced.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/file_contents.h"
#include "base/file_replacement.h"
#include "base/mapped_file.h"

namespace tahmin {
namespace {

class FileTest : public testing::Test {
 protected:
  FileTest() {
    folder_ = testing::TempDir() + "tahmin-file-test-" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
  }
  ~FileTest() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  size_t NumFiles() const {
    const std::filesystem::directory_iterator files(folder_);
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }

  std::string folder_;
};

std::vector<uint8_t> Bytes(std::string_view text) { return {text.begin(), text.end()}; }

std::string Contents(const std::string& path) {
  const auto file = MappedFile::Open(path);
  if (!file.ok()) return file.status().ToString();
  return std::string(file->bytes().begin(), file->bytes().end());
}

TEST_F(FileTest, ReplacesWholeAndLeavesNothingBeside) {
  ASSERT_TRUE(ReplaceFile(Path("a"), Bytes("first"), FileReaders::kEveryone).ok());
  EXPECT_EQ(Contents(Path("a")), "first");
  ASSERT_TRUE(ReplaceFile(Path("a"), Bytes("2nd"), FileReaders::kOwner).ok());
  EXPECT_EQ(Contents(Path("a")), "2nd");
  EXPECT_EQ(NumFiles(), 1u);
}

TEST_F(FileTest, ReadersAreWhoItSays) {
  struct stat attributes {};
  ASSERT_TRUE(ReplaceFile(Path("a"), Bytes("x"), FileReaders::kEveryone).ok());
  ASSERT_EQ(stat(Path("a").c_str(), &attributes), 0);
  EXPECT_EQ(attributes.st_mode & 0777, 0644u);
  ASSERT_TRUE(ReplaceFile(Path("a"), Bytes("x"), FileReaders::kOwner).ok());
  ASSERT_EQ(stat(Path("a").c_str(), &attributes), 0);
  EXPECT_EQ(attributes.st_mode & 0777, 0600u);
}

TEST_F(FileTest, FailedReplacementNamesThePathAndLeavesWhatWasThere) {
  const absl::Status nowhere = ReplaceFile(Path("no/a"), Bytes("x"), FileReaders::kOwner);
  EXPECT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.message().find(Path("no/a")), 0u) << nowhere;
  // A folder of that name cannot be replaced by a file.
  std::filesystem::create_directories(Path("folder/inside"));
  EXPECT_FALSE(ReplaceFile(Path("folder"), Bytes("x"), FileReaders::kOwner).ok());
  EXPECT_TRUE(std::filesystem::exists(Path("folder/inside")));
  EXPECT_EQ(NumFiles(), 1u);
}

TEST_F(FileTest, WhatCannotBeReplacedIsKnownBefore) {
  EXPECT_TRUE(CheckReplaceable(Path("new")).ok());
  EXPECT_EQ(NumFiles(), 0u);
  ASSERT_TRUE(ReplaceFile(Path("a"), Bytes("old"), FileReaders::kOwner).ok());
  EXPECT_TRUE(CheckReplaceable(Path("a")).ok());
  EXPECT_EQ(Contents(Path("a")), "old");
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  for (const std::string& path : {folder_, Path("pipe"), Path("no/a")}) {
    EXPECT_EQ(CheckReplaceable(path).message().find(path), 0u) << CheckReplaceable(path);
  }
  EXPECT_EQ(NumFiles(), 2u);
}

TEST_F(FileTest, ReplacesWhatALinkStandsFor) {
  ASSERT_TRUE(ReplaceFile(Path("a"), Bytes("old"), FileReaders::kOwner).ok());
  std::filesystem::create_symlink("a", Path("link"));
  ASSERT_TRUE(ReplaceFile(Path("link"), Bytes("new"), FileReaders::kOwner).ok());
  EXPECT_EQ(Contents(Path("a")), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
}

TEST_F(FileTest, APipeIsRefusedAtOnce) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::Open(Path("pipe")).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(FileTest, MapsRegularFilesOnly) {
  EXPECT_EQ(MappedFile::Open(Path("none")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MappedFile::Open(folder_).status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(ReplaceFile(Path("empty"), {}, FileReaders::kOwner).ok());
  EXPECT_EQ(MappedFile::Open(Path("empty")).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(FileTest, DroppedPagesAreReadAgainAndMovesKeepTheBytes) {
  const std::vector<uint8_t> bytes(5 * 4096 + 7, 42);
  ASSERT_TRUE(ReplaceFile(Path("a"), bytes, FileReaders::kOwner).ok());
  auto file = MappedFile::Open(Path("a"));
  ASSERT_TRUE(file.ok());
  file->DropPages(file->bytes().subspan(10));
  file->DropPages(bytes);  // not its own: nothing happens
  MappedFile moved = std::move(*file);
  EXPECT_TRUE(file->bytes().empty());
  EXPECT_EQ(std::vector<uint8_t>(moved.bytes().begin(), moved.bytes().end()), bytes);
  moved = MappedFile();
  EXPECT_TRUE(moved.bytes().empty());
}

// Bytes of the mapping that begins at `address` that this process has in memory.
size_t ResidentBytes(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  bool is_wanted = false;
  while (std::getline(maps, line)) {
    const size_t dash = line.find('-');
    if (dash != std::string::npos && line.find_first_not_of("0123456789abcdef") == dash) {
      is_wanted = std::stoull(line, nullptr, 16) == reinterpret_cast<uintptr_t>(address);
    } else if (is_wanted && line.starts_with("Rss:")) {
      return std::stoull(line.substr(4)) * 1024;
    }
  }
  ADD_FAILURE() << "no mapping at " << address;
  return 0;
}

// Parts that begin and end anywhere, each read after the one before it has been dropped.
TEST_F(FileTest, AFileDroppedPartByPartLeavesNothingInMemory) {
  const std::vector<uint8_t> bytes((4 << 20) + 77, 1);
  ASSERT_TRUE(ReplaceFile(Path("a"), bytes, FileReaders::kOwner).ok());
  const auto file = MappedFile::Open(Path("a"));
  ASSERT_TRUE(file.ok());
  const std::span<const uint8_t> mapped = file->bytes();
  EXPECT_EQ(std::accumulate(mapped.begin(), mapped.end(), size_t{0}), bytes.size());
  EXPECT_GT(ResidentBytes(mapped.data()), 0u);
  file->DropPages(mapped);
  EXPECT_EQ(ResidentBytes(mapped.data()), 0u);
  const size_t part_bytes = 300001;
  for (size_t begin = 0; begin < mapped.size(); begin += part_bytes) {
    const auto part = mapped.subspan(begin, std::min(part_bytes, mapped.size() - begin));
    EXPECT_EQ(std::accumulate(part.begin(), part.end(), size_t{0}), part.size());
    file->DropPages(part);
    EXPECT_EQ(ResidentBytes(mapped.data()), 0u) << begin;
  }
}

TEST_F(FileTest, ReadsAWholeFileAndNamesWhatCannotBeRead) {
  const std::string bytes("a\0b\r\n", 5);
  std::ofstream(Path("a"), std::ios::binary) << bytes;
  EXPECT_EQ(ReadWholeFile(Path("a")).value_or("?"), bytes);
  EXPECT_EQ(ReadWholeFile(Path("none")).status().code(), absl::StatusCode::kNotFound);
  const auto folder = ReadWholeFile(folder_);  // opens, but cannot be read
  EXPECT_EQ(folder.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(folder.status().message().find(folder_), std::string::npos);
  // One that never ends.
  EXPECT_EQ(ReadWholeFile("/dev/zero").status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace tahmin
