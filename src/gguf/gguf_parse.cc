// Layout (ggml/docs/gguf.md): "GGUF", version, number of tensors, number of entries, the entries,
// the tensor descriptions, padding to the alignment, the tensor data. Offsets of tensors count from
// the start of the tensor data.
#include "gguf/gguf_parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "gguf/gguf_cursor.h"

namespace tahmin::gguf_internal {

static_assert(std::endian::native == std::endian::little, "GGUF bytes are read in place");

namespace {

constexpr int kMaxArrayDepth = 4;
constexpr uint32_t kMaxDimensions = 4;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint32_t kMinAlignment = 8;  // the format asks for a multiple of it
constexpr uint32_t kMaxAlignment = uint32_t{1} << 30;
// The shortest entry is a key length, a key of one byte, a type and a one-byte value; the shortest
// tensor description a name of one byte, one dimension, type and offset.
constexpr uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

// Bytes of a scalar; 0: not a scalar type.
uint64_t ScalarBytes(GgufValueType type) {
  switch (type) {
    case GgufValueType::kUint8:
    case GgufValueType::kInt8:
    case GgufValueType::kBool:
      return 1;
    case GgufValueType::kUint16:
    case GgufValueType::kInt16:
      return 2;
    case GgufValueType::kUint32:
    case GgufValueType::kInt32:
    case GgufValueType::kFloat32:
      return 4;
    case GgufValueType::kUint64:
    case GgufValueType::kInt64:
    case GgufValueType::kFloat64:
      return 8;
    default:
      return 0;
  }
}

absl::StatusOr<GgufValueType> ReadValueType(Cursor& cursor, const std::string& what) {
  TAHMIN_ASSIGN_OR_RETURN(uint32_t number, cursor.Read<uint32_t>(what));
  if (number > static_cast<uint32_t>(GgufValueType::kFloat64)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} has the unknown value type {}", cursor.display_name(), what, number));
  }
  return static_cast<GgufValueType>(number);
}

absl::Status CheckBools(std::span<const uint8_t> values, const std::string& what,
                        const Cursor& cursor) {
  for (uint8_t value : values) {
    if (value > 1) {
      return absl::InvalidArgumentError(fmt::format("{}: {} holds {} as a bool, expected 0 or 1",
                                                    cursor.display_name(), what, value));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadScalars(Cursor& cursor, GgufValueType type, uint64_t count,
                         const std::string& what) {
  const uint64_t scalar_bytes = ScalarBytes(type);
  TAHMIN_RETURN_IF_ERROR(cursor.CheckCount(count, scalar_bytes, what));
  TAHMIN_ASSIGN_OR_RETURN(std::span<const uint8_t> values, cursor.Take(count * scalar_bytes, what));
  return type == GgufValueType::kBool ? CheckBools(values, what, cursor) : absl::OkStatus();
}

// Moves over the elements of an array, whose type and count have been read.
absl::Status ReadElements(Cursor& cursor, GgufValueType type, uint64_t count, int depth,
                          const std::string& what) {
  if (ScalarBytes(type) > 0) return ReadScalars(cursor, type, count, what);
  if (type == GgufValueType::kString) {
    TAHMIN_RETURN_IF_ERROR(cursor.CheckCount(count, 8, what));
    for (uint64_t i = 0; i < count; ++i) {
      TAHMIN_RETURN_IF_ERROR(cursor.ReadString(what).status());
    }
    return absl::OkStatus();
  }
  if (depth == kMaxArrayDepth) {
    return absl::InvalidArgumentError(fmt::format("{}: {} nests arrays deeper than {}",
                                                  cursor.display_name(), what, kMaxArrayDepth));
  }
  TAHMIN_RETURN_IF_ERROR(cursor.CheckCount(count, 12, what));
  for (uint64_t i = 0; i < count; ++i) {
    TAHMIN_ASSIGN_OR_RETURN(GgufValueType inner, ReadValueType(cursor, what));
    TAHMIN_ASSIGN_OR_RETURN(uint64_t inner_count, cursor.Read<uint64_t>(what));
    TAHMIN_RETURN_IF_ERROR(ReadElements(cursor, inner, inner_count, depth + 1, what));
  }
  return absl::OkStatus();
}

absl::StatusOr<GgufEntry> ReadEntry(Cursor& cursor, std::span<const uint8_t> file) {
  GgufEntry entry;
  TAHMIN_ASSIGN_OR_RETURN(entry.key, cursor.ReadString("a metadata key"));
  if (entry.key.empty()) {
    return absl::InvalidArgumentError(fmt::format("{}: the metadata key before byte {} is empty",
                                                  cursor.display_name(), cursor.position()));
  }
  const std::string what = "metadata " + Quoted(entry.key);
  TAHMIN_ASSIGN_OR_RETURN(entry.type, ReadValueType(cursor, what));
  if (entry.type == GgufValueType::kArray) {
    TAHMIN_ASSIGN_OR_RETURN(entry.element_type, ReadValueType(cursor, what));
    TAHMIN_ASSIGN_OR_RETURN(entry.num_elements, cursor.Read<uint64_t>(what));
    const uint64_t start = cursor.position();
    TAHMIN_RETURN_IF_ERROR(ReadElements(cursor, entry.element_type, entry.num_elements, 1, what));
    entry.bytes = file.subspan(start, cursor.position() - start);
    return entry;
  }
  entry.element_type = entry.type;
  if (entry.type == GgufValueType::kString) {
    TAHMIN_ASSIGN_OR_RETURN(std::string_view text, cursor.ReadString(what));
    entry.bytes = {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
    return entry;
  }
  const uint64_t start = cursor.position();
  TAHMIN_RETURN_IF_ERROR(ReadScalars(cursor, entry.type, 1, what));
  entry.bytes = file.subspan(start, cursor.position() - start);
  return entry;
}

// A tensor as the file describes it; its bytes are not yet located.
struct TensorDescription {
  GgufTensor tensor;
  uint64_t offset = 0;
  uint64_t num_bytes = 0;
};

absl::StatusOr<uint64_t> TensorBytes(const GgufTensor& tensor, std::string_view display_name) {
  const TensorTypeTraits& traits = *FindTensorType(static_cast<uint32_t>(tensor.type));
  if (tensor.columns() % traits.block_elements != 0) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: tensor {} has {} columns, not a multiple of the {} elements of a {} block",
        display_name, Quoted(tensor.name), tensor.columns(), traits.block_elements, traits.name));
  }
  uint64_t num_elements = 1;
  uint64_t num_bytes = 0;
  bool overflow = false;
  for (int64_t dimension : tensor.dimensions) {
    overflow |=
        __builtin_mul_overflow(num_elements, static_cast<uint64_t>(dimension), &num_elements);
  }
  overflow |= __builtin_mul_overflow(num_elements / static_cast<uint64_t>(traits.block_elements),
                                     static_cast<uint64_t>(traits.block_bytes), &num_bytes);
  if (overflow || num_elements > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return absl::InvalidArgumentError(
        fmt::format("{}: tensor {} has dimensions [{}], too many elements for 64 bits",
                    display_name, Quoted(tensor.name), fmt::join(tensor.dimensions, ", ")));
  }
  return num_bytes;
}

absl::Status ReadDimensions(Cursor& cursor, const std::string& what, GgufTensor& tensor) {
  TAHMIN_ASSIGN_OR_RETURN(uint32_t num_dimensions, cursor.Read<uint32_t>(what));
  if (num_dimensions < 1 || num_dimensions > kMaxDimensions) {
    return absl::InvalidArgumentError(fmt::format("{}: {} has {} dimensions, expected 1 to {}",
                                                  cursor.display_name(), what, num_dimensions,
                                                  kMaxDimensions));
  }
  for (uint32_t i = 0; i < num_dimensions; ++i) {
    TAHMIN_ASSIGN_OR_RETURN(uint64_t dimension, cursor.Read<uint64_t>(what));
    if (dimension < 1 || dimension > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return absl::InvalidArgumentError(
          fmt::format("{}: dimension {} of {} is {}, expected 1 to {}", cursor.display_name(), i,
                      what, dimension, std::numeric_limits<int64_t>::max()));
    }
    tensor.dimensions.push_back(static_cast<int64_t>(dimension));
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorDescription> ReadTensor(Cursor& cursor, uint64_t alignment) {
  TensorDescription description;
  GgufTensor& tensor = description.tensor;
  TAHMIN_ASSIGN_OR_RETURN(std::string_view name, cursor.ReadString("a tensor name"));
  if (name.empty()) {
    return absl::InvalidArgumentError(fmt::format("{}: the tensor name before byte {} is empty",
                                                  cursor.display_name(), cursor.position()));
  }
  tensor.name = std::string(name);
  const std::string what = "tensor " + Quoted(name);
  TAHMIN_RETURN_IF_ERROR(ReadDimensions(cursor, what, tensor));
  TAHMIN_ASSIGN_OR_RETURN(uint32_t type_number, cursor.Read<uint32_t>(what));
  if (FindTensorType(type_number) == nullptr) {
    return absl::UnimplementedError(fmt::format("{}: not supported yet: {} ({})",
                                                cursor.display_name(), TensorTypeName(type_number),
                                                what));
  }
  tensor.type = static_cast<TensorType>(type_number);
  TAHMIN_ASSIGN_OR_RETURN(description.offset, cursor.Read<uint64_t>(what));
  if (description.offset % alignment != 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} starts at offset {}, not a multiple of the alignment {}",
                    cursor.display_name(), what, description.offset, alignment));
  }
  TAHMIN_ASSIGN_OR_RETURN(description.num_bytes, TensorBytes(tensor, cursor.display_name()));
  return description;
}

absl::Status CheckHeader(Cursor& cursor, uint32_t* version) {
  TAHMIN_ASSIGN_OR_RETURN(std::span<const uint8_t> magic, cursor.Take(4, "the magic number"));
  if (std::memcmp(magic.data(), "GGUF", 4) != 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: not a GGUF file: starts with the bytes {:02x} {:02x} {:02x} {:02x}",
                    cursor.display_name(), magic[0], magic[1], magic[2], magic[3]));
  }
  TAHMIN_ASSIGN_OR_RETURN(*version, cursor.Read<uint32_t>("the version"));
  if (*version != 0 && (*version & 0xFFFF) == 0) {
    return absl::UnimplementedError(
        fmt::format("{}: big-endian GGUF files are not supported (version field {:#010x})",
                    cursor.display_name(), *version));
  }
  if (*version != 2 && *version != 3) {
    return absl::UnimplementedError(fmt::format(
        "{}: GGUF version {} is not supported, only 2 and 3", cursor.display_name(), *version));
  }
  return absl::OkStatus();
}

// Gives every tensor its bytes; none may lie outside the file or share bytes with another.
absl::Status LocateTensors(std::vector<TensorDescription>& descriptions, uint64_t data_start,
                           std::span<const uint8_t> bytes, std::string_view display_name) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (TensorDescription& description : descriptions) {
    GgufTensor& tensor = description.tensor;
    uint64_t start = 0;
    uint64_t end = 0;
    if (__builtin_add_overflow(data_start, description.offset, &start) ||
        __builtin_add_overflow(start, description.num_bytes, &end) || end > bytes.size()) {
      return absl::DataLossError(fmt::format(
          "{}: truncated: tensor {} needs {} bytes at offset {} of the tensor data, which starts "
          "at byte {}; the file has {} bytes",
          display_name, Quoted(tensor.name), description.num_bytes, description.offset, data_start,
          bytes.size()));
    }
    tensor.bytes = bytes.subspan(start, description.num_bytes);
    ranges.emplace_back(start, end);
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second) {
      return absl::InvalidArgumentError(
          fmt::format("{}: two tensors share the bytes at {}", display_name, ranges[i].first));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> ReadAlignment(const std::vector<GgufEntry>& entries,
                                       std::string_view display_name) {
  const auto entry = std::find_if(entries.begin(), entries.end(), [](const GgufEntry& candidate) {
    return candidate.key == "general.alignment";
  });
  if (entry == entries.end()) return kDefaultAlignment;
  uint32_t alignment = 0;
  if (entry->type == GgufValueType::kUint32) {
    std::memcpy(&alignment, entry->bytes.data(), sizeof(alignment));
  }
  if (alignment < kMinAlignment || alignment > kMaxAlignment || !std::has_single_bit(alignment)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: general.alignment is {}, expected a power of two (uint32) from {} to {}",
                    display_name, FormatGgufValue(*entry), kMinAlignment, kMaxAlignment));
  }
  return uint64_t{alignment};
}

}  // namespace

absl::StatusOr<ParsedGguf> ParseGguf(std::span<const uint8_t> bytes,
                                     std::string_view display_name) {
  ParsedGguf parsed;
  Cursor cursor(bytes, display_name);
  TAHMIN_RETURN_IF_ERROR(CheckHeader(cursor, &parsed.version));
  TAHMIN_ASSIGN_OR_RETURN(uint64_t num_tensors, cursor.Read<uint64_t>("the number of tensors"));
  TAHMIN_ASSIGN_OR_RETURN(uint64_t num_entries, cursor.Read<uint64_t>("the number of entries"));
  TAHMIN_RETURN_IF_ERROR(cursor.CheckCount(num_entries, kMinEntryBytes, "the metadata"));
  parsed.entries.reserve(num_entries);
  for (uint64_t i = 0; i < num_entries; ++i) {
    TAHMIN_ASSIGN_OR_RETURN(GgufEntry entry, ReadEntry(cursor, bytes));
    parsed.entries.push_back(entry);
  }
  TAHMIN_ASSIGN_OR_RETURN(uint64_t alignment, ReadAlignment(parsed.entries, display_name));
  TAHMIN_RETURN_IF_ERROR(cursor.CheckCount(num_tensors, kMinTensorBytes, "the tensor list"));
  std::vector<TensorDescription> descriptions;
  descriptions.reserve(num_tensors);
  for (uint64_t i = 0; i < num_tensors; ++i) {
    TAHMIN_ASSIGN_OR_RETURN(TensorDescription description, ReadTensor(cursor, alignment));
    descriptions.push_back(std::move(description));
  }
  const uint64_t data_start = (cursor.position() + alignment - 1) / alignment * alignment;
  TAHMIN_RETURN_IF_ERROR(LocateTensors(descriptions, data_start, bytes, display_name));
  parsed.tensors.reserve(num_tensors);
  for (TensorDescription& description : descriptions) {
    parsed.tensors.push_back(std::move(description.tensor));
  }
  return parsed;
}

}  // namespace tahmin::gguf_internal
