// Any bytes as a GGUF file: parsed, every entry read through every accessor, a few rows of every
// tensor dequantised.
//   fuzz_gguf CORPUS            (start it with a file of write_tiny_model)
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "gguf/dequantize.h"
#include "gguf/gguf_file.h"

namespace {

void TouchEntry(const tahmin::GgufFile& file, const tahmin::GgufEntry& entry) {
  TAHMIN_CHECK(file.FindEntry(entry.key) == &entry);
  int num_types = 0;
  num_types += file.GetBool(entry.key).ok() ? 1 : 0;
  num_types += file.GetString(entry.key).ok() ? 1 : 0;
  num_types += file.GetInt(entry.key).ok() || file.GetFloat(entry.key).ok() ? 1 : 0;
  const auto strings = file.GetStringArray(entry.key);
  const auto integers = file.GetIntArray(entry.key);
  const auto floats = file.GetFloatArray(entry.key);
  const bool is_array = strings.ok() || integers.ok() || floats.ok();
  TAHMIN_CHECK(num_types + (is_array ? 1 : 0) <= 1);
  if (strings.ok()) TAHMIN_CHECK(strings->size() == entry.num_elements);
  if (integers.ok()) TAHMIN_CHECK(integers->size() == entry.num_elements);
  TAHMIN_CHECK(!tahmin::FormatGgufValue(entry).empty());
}

void TouchTensor(const tahmin::GgufTensor& tensor) {
  const tahmin::TensorTypeTraits& traits =
      *tahmin::FindTensorType(static_cast<uint32_t>(tensor.type));
  const size_t columns = static_cast<size_t>(tensor.columns());
  const size_t row_bytes =
      columns / static_cast<size_t>(traits.block_elements) * traits.block_bytes;
  TAHMIN_CHECK(tensor.bytes.size() == row_bytes * static_cast<size_t>(tensor.rows()));
  std::vector<float> row(columns);
  for (size_t i = 0; i < std::min<size_t>(3, static_cast<size_t>(tensor.rows())); ++i) {
    const bool ok =
        tahmin::DequantizeRow(tensor.type, tensor.bytes.subspan(i * row_bytes, row_bytes), row)
            .ok();
    TAHMIN_CHECK(ok == traits.is_weight);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t num_bytes) {
  const auto file = tahmin::GgufFile::Parse({bytes, num_bytes}, "fuzz");
  if (!file.ok()) {
    TAHMIN_CHECK(!file.status().message().empty());
    return 0;
  }
  for (const tahmin::GgufEntry& entry : (*file)->entries()) TouchEntry(**file, entry);
  for (const tahmin::GgufTensor& tensor : (*file)->tensors()) TouchTensor(tensor);
  return 0;
}
