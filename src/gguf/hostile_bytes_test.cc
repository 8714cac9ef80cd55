// Damaged files end in an error or in a loaded file, never in a crash. Run with the sanitizer
// presets too.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/philox.h"
#include "gguf/dequantize.h"
#include "gguf/gguf_file.h"
#include "gguf/gguf_writer.h"

namespace tahmin {
namespace {

std::vector<uint8_t> SmallFile() {
  GgufWriter writer;
  writer.AddString("general.architecture", "llama");
  writer.AddUint32("general.alignment", 64);
  writer.AddUint64("big", 1u << 20);
  writer.AddFloat32("scale", 0.5f);
  writer.AddBool("flag", true);
  writer.AddStringArray("tokens", {"a", "b", "", "longer token", "\xC4\xA0"});
  writer.AddInt32Array("types", {1, 1, 3, 1, 1});
  writer.AddFloat32Array("scores", {0.0f, -1.0f});
  const auto add = [&](const char* name, TensorType type, std::vector<int64_t> dimensions,
                       size_t num_bytes) {
    ASSERT_TRUE(
        writer.AddTensor(name, type, dimensions, std::vector<uint8_t>(num_bytes, 0x35)).ok());
  };
  add("norm", TensorType::kF32, {16}, 64);
  add("q4", TensorType::kQ4_K, {256, 2}, 288);
  add("q8", TensorType::kQ8_0, {32, 5}, 170);
  return writer.ToBytes();
}

// Reads everything that the file offers, through every accessor.
void Touch(const GgufFile& file) {
  for (const GgufEntry& entry : file.entries()) {
    (void)file.GetInt(entry.key);
    (void)file.GetFloat(entry.key);
    (void)file.GetBool(entry.key);
    (void)file.GetString(entry.key);
    (void)file.GetStringArray(entry.key);
    (void)file.GetIntArray(entry.key);
    (void)file.GetFloatArray(entry.key);
    EXPECT_FALSE(FormatGgufValue(entry).empty());
  }
  for (const GgufTensor& tensor : file.tensors()) {
    const TensorTypeTraits& traits = *FindTensorType(static_cast<uint32_t>(tensor.type));
    std::vector<float> row(static_cast<size_t>(tensor.columns()));
    const size_t row_bytes =
        row.size() / static_cast<size_t>(traits.block_elements) * traits.block_bytes;
    EXPECT_EQ(DequantizeRow(tensor.type, tensor.bytes.first(row_bytes), row).ok(),
              traits.is_weight);
  }
}

TEST(GgufHostileBytes, TheFileItselfLoads) {
  const std::vector<uint8_t> bytes = SmallFile();
  const auto file = GgufFile::Parse(bytes, "small");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->entries().size(), 8u);
  EXPECT_EQ((*file)->tensors().size(), 3u);
  Touch(**file);
}

TEST(GgufHostileBytes, EveryTruncationIsReported) {
  const std::vector<uint8_t> whole = SmallFile();
  const auto file = GgufFile::Parse(whole, "small");
  ASSERT_TRUE(file.ok());
  const GgufTensor* last = (*file)->FindTensor("q8");
  const size_t needed = static_cast<size_t>(last->bytes.data() - whole.data()) + last->bytes.size();
  ASSERT_GT(needed, 1000u);
  for (size_t length = 0; length < needed; ++length) {
    // A copy of exactly this size, so that a sanitizer sees the end.
    const std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<int64_t>(length));
    const absl::Status status = GgufFile::Parse(cut, "cut").status();
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << length << ": " << status;
    const std::string message(status.message());
    ASSERT_NE(message.find("truncated"), std::string::npos) << message;
  }
}

TEST(GgufHostileBytes, FlippedBytesGiveAnErrorOrAFile) {
  const std::vector<uint8_t> whole = SmallFile();
  int num_loaded = 0;
  int num_refused = 0;
  for (uint32_t round = 0; round < 10000; ++round) {
    const auto words = Philox4x32(42, PhiloxCounter{{round, 0, 0, 0}});
    std::vector<uint8_t> bytes = whole;
    // Most of the file is tensor data, where a flip is harmless; half of the rounds stay in front.
    const size_t span = round % 2 == 0 ? bytes.size() : 600;
    for (uint32_t flip = 0; flip < 1 + words[0] % 3; ++flip) {
      const auto where = Philox4x32(43, PhiloxCounter{{round, flip, 0, 0}});
      bytes[where[0] % span] ^= static_cast<uint8_t>(1 + where[1] % 255);
    }
    const auto file = GgufFile::Parse(bytes, "flipped");
    ++(file.ok() ? num_loaded : num_refused);
    if (file.ok()) {
      Touch(**file);
    } else {
      ASSERT_FALSE(file.status().message().empty());
    }
  }
  // Both ways are really taken.
  EXPECT_GT(num_loaded, 500);
  EXPECT_GT(num_refused, 500);
}

}  // namespace
}  // namespace tahmin
