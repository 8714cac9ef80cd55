#include "gguf/gguf_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "base/check.h"
#include "base/file_replacement.h"
#include "base/status_macros.h"

namespace tahmin {
namespace {

constexpr uint64_t kVersion = 3;
constexpr uint64_t kDefaultAlignment = 32;

template <typename T>
void Append(std::vector<uint8_t>& out, T value) {
  const size_t end = out.size();
  out.resize(end + sizeof(T));
  std::memcpy(out.data() + end, &value, sizeof(T));
}

void AppendString(std::vector<uint8_t>& out, std::string_view text) {
  Append<uint64_t>(out, text.size());
  out.insert(out.end(), text.begin(), text.end());
}

void AppendArrayHeader(std::vector<uint8_t>& out, GgufValueType element_type, size_t count) {
  Append(out, static_cast<uint32_t>(element_type));
  Append<uint64_t>(out, count);
}

template <typename T>
std::span<const uint8_t> BytesOf(const T& value) {
  return {reinterpret_cast<const uint8_t*>(&value), sizeof(T)};
}

uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace

struct GgufWriter::State {
  struct Tensor {
    std::string name;
    TensorType type;
    std::vector<int64_t> dimensions;
    std::vector<uint8_t> bytes;
  };

  uint64_t alignment = kDefaultAlignment;
  uint64_t num_entries = 0;
  std::vector<uint8_t> metadata;
  std::vector<Tensor> tensors;
  std::unordered_set<std::string> keys;
  std::unordered_set<std::string> tensor_names;
};

GgufWriter::GgufWriter() : state_(std::make_unique<State>()) {}
GgufWriter::~GgufWriter() = default;

void GgufWriter::AddValue(std::string_view key, GgufValueType type,
                          std::span<const uint8_t> value) {
  TAHMIN_CHECK(!key.empty() && state_->keys.emplace(key).second);
  AppendString(state_->metadata, key);
  Append(state_->metadata, static_cast<uint32_t>(type));
  state_->metadata.insert(state_->metadata.end(), value.begin(), value.end());
  ++state_->num_entries;
}

void GgufWriter::AddUint32(std::string_view key, uint32_t value) {
  if (key == "general.alignment") {
    TAHMIN_CHECK(value >= 8 && (value & (value - 1)) == 0);
    state_->alignment = value;
  }
  AddValue(key, GgufValueType::kUint32, BytesOf(value));
}

void GgufWriter::AddInt32(std::string_view key, int32_t value) {
  AddValue(key, GgufValueType::kInt32, BytesOf(value));
}

void GgufWriter::AddUint64(std::string_view key, uint64_t value) {
  AddValue(key, GgufValueType::kUint64, BytesOf(value));
}

void GgufWriter::AddFloat32(std::string_view key, float value) {
  AddValue(key, GgufValueType::kFloat32, BytesOf(value));
}

void GgufWriter::AddBool(std::string_view key, bool value) {
  AddValue(key, GgufValueType::kBool, BytesOf(static_cast<uint8_t>(value ? 1 : 0)));
}

void GgufWriter::AddString(std::string_view key, std::string_view value) {
  std::vector<uint8_t> raw;
  AppendString(raw, value);
  AddValue(key, GgufValueType::kString, raw);
}

void GgufWriter::AddStringArray(std::string_view key, const std::vector<std::string>& values) {
  std::vector<uint8_t> raw;
  AppendArrayHeader(raw, GgufValueType::kString, values.size());
  for (const std::string& value : values) AppendString(raw, value);
  AddValue(key, GgufValueType::kArray, raw);
}

void GgufWriter::AddInt32Array(std::string_view key, const std::vector<int32_t>& values) {
  std::vector<uint8_t> raw;
  AppendArrayHeader(raw, GgufValueType::kInt32, values.size());
  for (int32_t value : values) Append(raw, value);
  AddValue(key, GgufValueType::kArray, raw);
}

void GgufWriter::AddFloat32Array(std::string_view key, const std::vector<float>& values) {
  std::vector<uint8_t> raw;
  AppendArrayHeader(raw, GgufValueType::kFloat32, values.size());
  for (float value : values) Append(raw, value);
  AddValue(key, GgufValueType::kArray, raw);
}

absl::Status GgufWriter::AddTensor(std::string_view name, TensorType type,
                                   const std::vector<int64_t>& dimensions,
                                   std::span<const uint8_t> bytes) {
  const TensorTypeTraits* traits = FindTensorType(static_cast<uint32_t>(type));
  TAHMIN_CHECK(traits != nullptr);
  if (name.empty() || dimensions.empty() || dimensions.size() > 4) {
    return absl::InvalidArgumentError(fmt::format(
        "tensor \"{}\" needs a name and 1 to 4 dimensions, found {}", name, dimensions.size()));
  }
  uint64_t num_elements = 1;
  for (int64_t dimension : dimensions) {
    if (dimension < 1 ||
        __builtin_mul_overflow(num_elements, static_cast<uint64_t>(dimension), &num_elements)) {
      return absl::InvalidArgumentError(fmt::format("tensor \"{}\" has impossible dimensions [{}]",
                                                    name, fmt::join(dimensions, ", ")));
    }
  }
  const uint64_t block_elements = static_cast<uint64_t>(traits->block_elements);
  const uint64_t expected_bytes = num_elements / block_elements * traits->block_bytes;
  if (dimensions[0] % traits->block_elements != 0 || bytes.size() != expected_bytes) {
    return absl::InvalidArgumentError(fmt::format(
        "tensor \"{}\" ({} [{}], blocks of {}) takes {} bytes, found {}", name, traits->name,
        fmt::join(dimensions, ", "), traits->block_elements, expected_bytes, bytes.size()));
  }
  if (!state_->tensor_names.emplace(name).second) {
    return absl::InvalidArgumentError(fmt::format("tensor \"{}\" was added before", name));
  }
  state_->tensors.push_back({std::string(name), type, dimensions, {bytes.begin(), bytes.end()}});
  return absl::OkStatus();
}

std::vector<uint8_t> GgufWriter::ToBytes() const {
  std::vector<uint8_t> out = {'G', 'G', 'U', 'F'};
  Append<uint32_t>(out, kVersion);
  Append<uint64_t>(out, state_->tensors.size());
  Append<uint64_t>(out, state_->num_entries);
  out.insert(out.end(), state_->metadata.begin(), state_->metadata.end());
  uint64_t offset = 0;
  for (const State::Tensor& tensor : state_->tensors) {
    AppendString(out, tensor.name);
    Append(out, static_cast<uint32_t>(tensor.dimensions.size()));
    for (int64_t dimension : tensor.dimensions) Append(out, dimension);
    Append(out, static_cast<uint32_t>(tensor.type));
    Append(out, offset);
    offset = AlignUp(offset + tensor.bytes.size(), state_->alignment);
  }
  for (const State::Tensor& tensor : state_->tensors) {
    out.resize(AlignUp(out.size(), state_->alignment));
    out.insert(out.end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  out.resize(AlignUp(out.size(), state_->alignment));
  return out;
}

absl::Status GgufWriter::Write(const std::string& path) const {
  return ReplaceFile(path, ToBytes(), FileReaders::kEveryone);
}

}  // namespace tahmin
