#include "gguf/gguf_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gguf/gguf_file.h"

namespace tahmin {
namespace {

using ::testing::HasSubstr;

std::vector<uint8_t> Bytes(size_t count) {
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(i * 7 + 1);
  return bytes;
}

TEST(GgufWriter, WhatIsWrittenIsRead) {
  GgufWriter writer;
  writer.AddUint32("a.u32", 4000000000u);
  writer.AddInt32("a.i32", -5);
  writer.AddUint64("a.u64", uint64_t{1} << 40);
  writer.AddFloat32("a.f32", 0.25f);
  writer.AddBool("a.bool", true);
  writer.AddString("a.string", "text");
  writer.AddStringArray("a.strings", {"x", "", "long one"});
  writer.AddInt32Array("a.ints", {1, -2, 3});
  writer.AddFloat32Array("a.floats", {0.5f, -1.0f});
  ASSERT_TRUE(writer.AddTensor("one", TensorType::kF32, {3}, Bytes(12)).ok());
  ASSERT_TRUE(writer.AddTensor("two", TensorType::kQ8_0, {64, 2, 3}, Bytes(2 * 34 * 6)).ok());
  const std::vector<uint8_t> bytes = writer.ToBytes();
  const auto file = GgufFile::Parse(bytes, "memory");
  ASSERT_TRUE(file.ok()) << file.status();
  const GgufFile& read = **file;
  EXPECT_EQ(read.version(), 3u);
  EXPECT_EQ(read.file_bytes(), bytes.size());
  EXPECT_EQ(*read.GetInt("a.u32"), 4000000000);
  EXPECT_EQ(*read.GetInt("a.i32"), -5);
  EXPECT_EQ(*read.GetInt("a.u64"), int64_t{1} << 40);
  EXPECT_EQ(*read.GetFloat("a.f32"), 0.25);
  EXPECT_EQ(*read.GetBool("a.bool"), true);
  EXPECT_EQ(*read.GetString("a.string"), "text");
  EXPECT_EQ(*read.GetStringArray("a.strings"),
            (std::vector<std::string_view>{"x", "", "long one"}));
  EXPECT_EQ(*read.GetIntArray("a.ints"), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(*read.GetFloatArray("a.floats"), (std::vector<double>{0.5, -1.0}));
  ASSERT_EQ(read.tensors().size(), 2u);
  const GgufTensor* two = read.FindTensor("two");
  ASSERT_NE(two, nullptr);
  EXPECT_EQ(two->columns(), 64);
  EXPECT_EQ(two->rows(), 6);
  EXPECT_EQ(std::vector<uint8_t>(two->bytes.begin(), two->bytes.end()), Bytes(2 * 34 * 6));
  EXPECT_EQ((two->bytes.data() - bytes.data()) % 32, 0);
}

TEST(GgufWriter, HonoursTheAlignment) {
  GgufWriter writer;
  writer.AddUint32("general.alignment", 256);
  ASSERT_TRUE(writer.AddTensor("one", TensorType::kF32, {1}, Bytes(4)).ok());
  ASSERT_TRUE(writer.AddTensor("two", TensorType::kF32, {1}, Bytes(4)).ok());
  const std::vector<uint8_t> bytes = writer.ToBytes();
  const auto file = GgufFile::Parse(bytes, "memory");
  ASSERT_TRUE(file.ok()) << file.status();
  for (const GgufTensor& tensor : (*file)->tensors()) {
    EXPECT_EQ((tensor.bytes.data() - bytes.data()) % 256, 0);
    EXPECT_EQ(tensor.bytes[3], 22);
  }
}

TEST(GgufWriter, RefusesTensorsThatDoNotFit) {
  GgufWriter writer;
  const auto add = [&](std::vector<int64_t> dimensions, size_t num_bytes) {
    return writer.AddTensor("t", TensorType::kQ4_0, dimensions, Bytes(num_bytes));
  };
  EXPECT_THAT(std::string(add({32}, 17).message()), HasSubstr("takes 18 bytes, found 17"));
  EXPECT_FALSE(add({31}, 18).ok());
  EXPECT_FALSE(add({}, 18).ok());
  EXPECT_FALSE(add({32, 1, 1, 1, 1}, 18).ok());
  EXPECT_FALSE(add({32, -1}, 18).ok());
  EXPECT_TRUE(add({32}, 18).ok());
  EXPECT_THAT(std::string(add({32}, 18).message()), HasSubstr("was added before"));
}

TEST(GgufWriter, WritesAtomicallyAndFailsByName) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("gguf_writer_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::string path = folder / "model.gguf";
  std::ofstream(path) << "old";
  GgufWriter writer;
  writer.AddBool("yes", true);
  ASSERT_TRUE(writer.Write(path).ok());
  const auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*(*file)->GetBool("yes"), true);
  // Nothing else is left beside it, also not by a write that fails at the rename.
  EXPECT_FALSE(writer.Write(folder).ok());
  std::filesystem::create_directory(folder / "taken");
  std::ofstream(folder / "taken" / "x") << "x";
  EXPECT_FALSE(writer.Write(folder / "taken").ok());
  size_t num_files = 0;
  for ([[maybe_unused]] const auto& item : std::filesystem::directory_iterator(folder)) ++num_files;
  EXPECT_EQ(num_files, 2u);
  const absl::Status status = writer.Write(folder / "missing" / "model.gguf");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("missing/model.gguf"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tahmin
