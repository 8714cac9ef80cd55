#include "gguf/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "gguf/gguf_writer.h"

namespace tahmin {
namespace {

using ::testing::HasSubstr;

// Bytes of a file laid down by hand, so that the reader is not only tested against our own writer.
class RawBytes {
 public:
  template <typename T>
  RawBytes& Put(T value) {
    const size_t end = bytes_.size();
    bytes_.resize(end + sizeof(T));
    std::memcpy(bytes_.data() + end, &value, sizeof(T));
    return *this;
  }
  RawBytes& Text(std::string_view text) {
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    return *this;
  }
  RawBytes& String(std::string_view text) { return Put<uint64_t>(text.size()).Text(text); }
  RawBytes& Header(uint32_t version, uint64_t num_tensors, uint64_t num_entries) {
    return Text("GGUF").Put(version).Put(num_tensors).Put(num_entries);
  }
  RawBytes& Tensor(std::string_view name, std::vector<uint64_t> dimensions, uint32_t type,
                   uint64_t offset) {
    String(name).Put(static_cast<uint32_t>(dimensions.size()));
    for (uint64_t dimension : dimensions) Put(dimension);
    return Put(type).Put(offset);
  }
  RawBytes& PadTo(size_t alignment, size_t extra) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment + extra);
    return *this;
  }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

absl::Status ParseStatus(const RawBytes& raw) {
  return GgufFile::Parse(raw.bytes(), "raw.gguf").status();
}

void ExpectError(const RawBytes& raw, absl::StatusCode code, const std::string& text) {
  const absl::Status status = ParseStatus(raw);
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  EXPECT_THAT(std::string(status.message()), HasSubstr("raw.gguf"));
}

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;

TEST(GgufFile, ReadsVersionsTwoAndThree) {
  for (uint32_t version : {2u, 3u}) {
    RawBytes raw;
    raw.Header(version, 1, 1).String("k").Put<uint32_t>(0).Put<uint8_t>(9);
    raw.Tensor("t", {2, 3}, 0, 0).PadTo(32, 24);
    const auto file = GgufFile::Parse(raw.bytes(), "raw.gguf");
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->version(), version);
    EXPECT_EQ(*(*file)->GetInt("k"), 9);
    EXPECT_EQ((*file)->FindTensor("t")->rows(), 3);
    EXPECT_EQ((*file)->FindTensor("missing"), nullptr);
    EXPECT_EQ((*file)->FindEntry("missing"), nullptr);
  }
}

TEST(GgufFile, RefusesOtherHeadersByName) {
  ExpectError(RawBytes().Text("PK\x03\x04 and so on"), kInvalid, "not a GGUF file");
  ExpectError(RawBytes().Header(1, 0, 0), kUnimplemented, "GGUF version 1 is not supported");
  ExpectError(RawBytes().Header(4, 0, 0), kUnimplemented, "GGUF version 4");
  ExpectError(RawBytes().Header(0x03000000, 0, 0), kUnimplemented, "big-endian");
  ExpectError(RawBytes().Text("GG"), kDataLoss,
              "truncated: the magic number needs 4 bytes at "
              "byte 0, the file has 2 bytes");
}

TEST(GgufFile, RefusesHugeCountsBeforeAllocating) {
  const uint64_t huge = std::numeric_limits<uint64_t>::max();
  ExpectError(RawBytes().Header(3, 0, huge), kDataLoss, "the metadata");
  ExpectError(RawBytes().Header(3, huge, 0), kDataLoss, "the tensor list");
  ExpectError(RawBytes().Header(3, 0, 1).Put(huge).PadTo(1, 99), kDataLoss, "a metadata key");
  for (uint32_t element : {0u, 6u, 8u, 9u, 12u}) {
    RawBytes raw;
    raw.Header(3, 0, 1).String("k").Put<uint32_t>(9).Put(element).Put(huge / 2).PadTo(1, 99);
    ExpectError(raw, kDataLoss, "metadata \"k\"");
  }
}

TEST(GgufFile, RefusesBadEntries) {
  ExpectError(RawBytes().Header(3, 0, 1).String("k").Put<uint32_t>(13).PadTo(1, 9), kInvalid,
              "unknown value type 13");
  ExpectError(RawBytes().Header(3, 0, 1).String("k").Put<uint32_t>(7).Put<uint8_t>(2).PadTo(1, 9),
              kInvalid, "expected 0 or 1");
  ExpectError(RawBytes().Header(3, 0, 1).String("").Put<uint32_t>(7).PadTo(1, 9), kInvalid,
              "is empty");
  RawBytes twice;
  twice.Header(3, 0, 2);
  for (int i = 0; i < 2; ++i) twice.String("same\x1b").Put<uint32_t>(7).Put<uint8_t>(1);
  ExpectError(twice, kInvalid, "metadata key \"same\\x1b\" appears twice");
}

TEST(GgufFile, BoundsTheNestingOfArrays) {
  for (int depth : {2, 4, 5, 1000}) {
    RawBytes raw;
    raw.Header(3, 0, 1).String("k").Put<uint32_t>(9);
    for (int i = 1; i < depth; ++i) raw.Put<uint32_t>(9).Put<uint64_t>(1);
    raw.Put<uint32_t>(0).Put<uint64_t>(2).Put<uint16_t>(0);
    if (depth <= 4) {
      const auto file = GgufFile::Parse(raw.bytes(), "raw.gguf");
      ASSERT_TRUE(file.ok()) << file.status();
      EXPECT_EQ(FormatGgufValue((*file)->entries()[0]), "array[1]");
      EXPECT_EQ((*file)->GetIntArray("k").status().code(), kInvalid);
    } else {
      ExpectError(raw, kInvalid, "nests arrays deeper than 4");
    }
  }
}

TEST(GgufFile, ChecksTheAlignment) {
  for (uint32_t alignment : {0u, 1u, 4u, 24u, 33u, 0x80000000u}) {
    RawBytes raw;
    raw.Header(3, 0, 1).String("general.alignment").Put<uint32_t>(4).Put(alignment);
    ExpectError(raw, kInvalid, "general.alignment is " + std::to_string(alignment));
  }
  ExpectError(RawBytes().Header(3, 0, 1).String("general.alignment").Put<uint32_t>(8).String("32"),
              kInvalid, "expected a power of two");
}

RawBytes OneTensor(std::vector<uint64_t> dimensions, uint32_t type, uint64_t offset,
                   size_t data_bytes) {
  RawBytes raw;
  raw.Header(3, 1, 0).Tensor("t", dimensions, type, offset).PadTo(32, data_bytes);
  return raw;
}

TEST(GgufFile, ChecksTensors) {
  EXPECT_TRUE(ParseStatus(OneTensor({32, 2}, 2, 0, 36)).ok());
  ExpectError(OneTensor({32, 2}, 2, 0, 35), kDataLoss,
              "truncated: tensor \"t\" needs 36 bytes at offset 0 of the tensor data, which starts "
              "at byte 96; the file has 131 bytes");
  ExpectError(OneTensor({31}, 2, 0, 99), kInvalid, "not a multiple of the 32 elements of a Q4_0");
  ExpectError(OneTensor({32, 0}, 2, 0, 99), kInvalid, "dimension 1 of tensor \"t\" is 0");
  ExpectError(OneTensor({32}, 2, 8, 99), kInvalid, "not a multiple of the alignment 32");
  ExpectError(OneTensor({}, 0, 0, 99), kInvalid, "has 0 dimensions");
  ExpectError(OneTensor({1, 1, 1, 1, 1}, 0, 0, 99), kInvalid, "has 5 dimensions");
  ExpectError(OneTensor({32}, 23, 0, 99), kUnimplemented,
              "not supported yet: IQ4_XS (tensor \"t\")");
  ExpectError(OneTensor({32}, 12345, 0, 99), kUnimplemented, "12345");
  const uint64_t large = uint64_t{1} << 62;
  ExpectError(OneTensor({large, 4}, 0, 0, 99), kInvalid, "too many elements");
  ExpectError(OneTensor({large, 8}, 2, 0, 99), kInvalid, "too many elements");
  ExpectError(OneTensor({large}, 0, 0, 99), kInvalid, "too many elements");
  ExpectError(OneTensor({uint64_t{1} << 63}, 0, 0, 99), kInvalid, "dimension 0");
  ExpectError(OneTensor({8}, 0, ~uint64_t{31}, 99), kDataLoss, "truncated");
}

TEST(GgufFile, TensorsMayNotShareNamesOrBytes) {
  RawBytes same_name;
  same_name.Header(3, 2, 0).Tensor("t", {8}, 0, 0).Tensor("t", {8}, 0, 32).PadTo(32, 64);
  ExpectError(same_name, kInvalid, "tensor \"t\" appears twice");
  RawBytes same_bytes;
  same_bytes.Header(3, 2, 0).Tensor("s", {9}, 0, 0).Tensor("t", {8}, 0, 32).PadTo(32, 99);
  ExpectError(same_bytes, kInvalid, "share the bytes");
}

class GgufScalars : public testing::Test {
 protected:
  template <typename T>
  void Add(std::string_view key, GgufValueType type, T value) {
    std::vector<uint8_t> bytes(sizeof(T));
    std::memcpy(bytes.data(), &value, sizeof(T));
    writer_.AddValue(key, type, bytes);
  }
  const GgufFile& Read() {
    bytes_ = writer_.ToBytes();
    file_ = std::move(GgufFile::Parse(bytes_, "scalars")).value();
    return *file_;
  }

  GgufWriter writer_;
  std::vector<uint8_t> bytes_;
  std::unique_ptr<GgufFile> file_;
};

TEST_F(GgufScalars, EveryIntegerTypeReadsAsIntAndFloat) {
  Add<uint8_t>("u8", GgufValueType::kUint8, 200);
  Add<int8_t>("i8", GgufValueType::kInt8, -100);
  Add<uint16_t>("u16", GgufValueType::kUint16, 60000);
  Add<int16_t>("i16", GgufValueType::kInt16, -30000);
  Add<uint32_t>("u32", GgufValueType::kUint32, 4000000000u);
  Add<int32_t>("i32", GgufValueType::kInt32, -2000000000);
  Add<uint64_t>("u64", GgufValueType::kUint64, uint64_t{1} << 62);
  Add<int64_t>("i64", GgufValueType::kInt64, std::numeric_limits<int64_t>::min());
  Add<float>("f32", GgufValueType::kFloat32, 12.0f);
  Add<double>("f64", GgufValueType::kFloat64, -3.0);
  const GgufFile& file = Read();
  const std::pair<const char*, int64_t> expected[] = {{"u8", 200},
                                                      {"i8", -100},
                                                      {"u16", 60000},
                                                      {"i16", -30000},
                                                      {"u32", 4000000000},
                                                      {"i32", -2000000000},
                                                      {"u64", int64_t{1} << 62},
                                                      {"i64", std::numeric_limits<int64_t>::min()},
                                                      {"f32", 12},
                                                      {"f64", -3}};
  for (const auto& [key, value] : expected) {
    EXPECT_EQ(file.GetInt(key).value_or(0), value) << key;
    EXPECT_EQ(file.GetFloat(key).value_or(0), static_cast<double>(value)) << key;
    EXPECT_FALSE(file.GetBool(key).ok()) << key;
    EXPECT_FALSE(file.GetString(key).ok()) << key;
  }
}

TEST_F(GgufScalars, WhatDoesNotFitIsAnErrorWithTypeAndValue) {
  Add<uint64_t>("big", GgufValueType::kUint64, std::numeric_limits<uint64_t>::max());
  Add<float>("half", GgufValueType::kFloat32, 0.5f);
  Add<double>("nan", GgufValueType::kFloat64, std::numeric_limits<double>::quiet_NaN());
  Add<double>("2^63", GgufValueType::kFloat64, 0x1p63);
  Add<uint8_t>("truth", GgufValueType::kBool, 1);
  writer_.AddString("word", "seven");
  const GgufFile& file = Read();
  for (const char* key : {"big", "half", "nan", "2^63", "truth", "word"}) {
    EXPECT_EQ(file.GetInt(key).status().code(), kInvalid) << key;
  }
  EXPECT_EQ(file.GetFloat("big").status().code(), kInvalid);
  EXPECT_EQ(*file.GetFloat("half"), 0.5);
  EXPECT_EQ(*file.GetFloat("2^63"), 0x1p63);
  EXPECT_EQ(
      std::string(file.GetInt("word").status().message()),
      "scalars: metadata \"word\" is string (\"seven\"), expected an integer that fits 64 bits");
  EXPECT_EQ(std::string(file.GetBool("half").status().message()),
            "scalars: metadata \"half\" is float32 (0.5), expected a bool");
  const absl::Status missing = file.GetInt("none").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(std::string(missing.message()), "scalars: no metadata \"none\"");
}

TEST_F(GgufScalars, Arrays) {
  writer_.AddStringArray("strings", {"a", "b"});
  writer_.AddFloat32Array("floats", {1.0f, 2.5f});
  writer_.AddInt32Array("empty", {});
  std::vector<uint8_t> bools = {7, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1};
  writer_.AddValue("bools", GgufValueType::kArray, bools);
  writer_.AddUint32("one", 1);
  const GgufFile& file = Read();
  EXPECT_EQ(*file.GetIntArray("bools"), (std::vector<int64_t>{1, 0, 1}));
  EXPECT_EQ(*file.GetFloatArray("floats"), (std::vector<double>{1.0, 2.5}));
  EXPECT_TRUE(file.GetIntArray("empty")->empty());
  EXPECT_EQ(std::string(file.GetIntArray("floats").status().message()),
            "scalars: element 1 of metadata \"floats\" is 2.5, expected an array of integers");
  EXPECT_THAT(std::string(file.GetIntArray("strings").status().message()),
              HasSubstr("is array of 2 string"));
  EXPECT_EQ(file.GetStringArray("floats").status().code(), kInvalid);
  EXPECT_EQ(file.GetFloatArray("one").status().code(), kInvalid);
  EXPECT_EQ(file.GetStringArray("nothing").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(GgufScalars, ValuesForPeople) {
  writer_.AddString("text", "tab\there \"q\" \xC3\xA9 \xFF\x1b[31m");
  writer_.AddString("long", std::string(200, 'x'));
  writer_.AddInt32Array("ints", {1, 2, 3});
  writer_.AddStringArray("many", std::vector<std::string>(1000, "token"));
  writer_.AddBool("no", false);
  const GgufFile& file = Read();
  const auto format = [&](const char* key) { return FormatGgufValue(*file.FindEntry(key), 40); };
  EXPECT_EQ(format("text"), "\"tab\\x09here \\\"q\\\" \xC3\xA9 \\xff\\x1b[31m\"");
  EXPECT_EQ(format("long"), "\"" + std::string(40, 'x') + "...\"");
  EXPECT_EQ(format("ints"), "int32[3]: 1, 2, 3");
  EXPECT_THAT(format("many"), HasSubstr("string[1000]: \"token\", "));
  EXPECT_LE(format("many").size(), 45u);
  EXPECT_EQ(format("no"), "false");
}

TEST(GgufFile, OpenMapsAFileAndDropsItsPages) {
  const std::string path = testing::TempDir() + "/open_" + std::to_string(getpid()) + ".gguf";
  std::vector<uint8_t> data(1 << 20);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 31 >> 5);
  GgufWriter writer;
  ASSERT_TRUE(writer.AddTensor("t", TensorType::kF32, {1 << 18}, data).ok());
  ASSERT_TRUE(writer.Write(path).ok());
  const auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->path(), path);
  const GgufTensor& tensor = (*file)->tensors()[0];
  for (int round = 0; round < 2; ++round) {
    // Dropped pages come back with their bytes.
    ASSERT_TRUE(std::equal(data.begin(), data.end(), tensor.bytes.begin(), tensor.bytes.end()));
    (*file)->DropPages(tensor.bytes);
  }
  (*file)->DropPages(data);  // not of this file: nothing happens
  EXPECT_EQ(data[33], static_cast<uint8_t>(33 * 31 >> 5));
  std::filesystem::remove(path);
}

TEST(GgufFile, OpenSaysWhyNot) {
  const std::string missing = testing::TempDir() + "/no_such_file.gguf";
  const absl::Status status = GgufFile::Open(missing).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no_such_file.gguf"));
  EXPECT_THAT(std::string(GgufFile::Open(testing::TempDir()).status().message()),
              HasSubstr("not a regular file"));
  const std::string empty = testing::TempDir() + "/empty_" + std::to_string(getpid()) + ".gguf";
  std::ofstream(empty).close();
  EXPECT_EQ(GgufFile::Open(empty).status().code(), kDataLoss);
  std::filesystem::remove(empty);
}

}  // namespace
}  // namespace tahmin
