// Files mapped and files replaced.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

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

}  // namespace
}  // namespace tahmin
