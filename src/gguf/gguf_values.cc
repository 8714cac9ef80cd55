// Typed access to the metadata and its form for people. The bytes of an entry were checked when the
// file was parsed, so nothing here can run past them.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <variant>

#include "base/check.h"
#include "base/status_macros.h"
#include "gguf/gguf_cursor.h"
#include "gguf/gguf_file.h"

namespace tahmin {

using gguf_internal::Quoted;

namespace {

template <typename T>
T Load(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

using Scalar = std::variant<int64_t, uint64_t, double, bool>;

// The scalar at `bytes` and its size. Only for scalar types.
std::pair<Scalar, size_t> ReadScalar(GgufValueType type, const uint8_t* bytes) {
  switch (type) {
    case GgufValueType::kUint8:
      return {int64_t{Load<uint8_t>(bytes)}, 1};
    case GgufValueType::kInt8:
      return {int64_t{Load<int8_t>(bytes)}, 1};
    case GgufValueType::kUint16:
      return {int64_t{Load<uint16_t>(bytes)}, 2};
    case GgufValueType::kInt16:
      return {int64_t{Load<int16_t>(bytes)}, 2};
    case GgufValueType::kUint32:
      return {int64_t{Load<uint32_t>(bytes)}, 4};
    case GgufValueType::kInt32:
      return {int64_t{Load<int32_t>(bytes)}, 4};
    case GgufValueType::kUint64:
      return {Load<uint64_t>(bytes), 8};
    case GgufValueType::kInt64:
      return {Load<int64_t>(bytes), 8};
    case GgufValueType::kFloat32:
      return {double{Load<float>(bytes)}, 4};
    case GgufValueType::kFloat64:
      return {Load<double>(bytes), 8};
    case GgufValueType::kBool:
      return {bytes[0] != 0, 1};
    default:
      break;
  }
  TAHMIN_CHECK(false && "not a scalar type");
  return {int64_t{0}, 1};
}

bool IsScalar(GgufValueType type) {
  return type != GgufValueType::kString && type != GgufValueType::kArray;
}

std::string TypeName(GgufValueType type) {
  static constexpr const char* kNames[] = {"uint8",  "int8",    "uint16", "int16",  "uint32",
                                           "int32",  "float32", "bool",   "string", "array",
                                           "uint64", "int64",   "float64"};
  return kNames[static_cast<uint32_t>(type)];
}

std::string TypeName(const GgufEntry& entry) {
  if (entry.type != GgufValueType::kArray) return TypeName(entry.type);
  return fmt::format("array of {} {}", entry.num_elements, TypeName(entry.element_type));
}

// Exactly, or not at all.
std::optional<int64_t> ToInt(const Scalar& scalar) {
  if (const int64_t* value = std::get_if<int64_t>(&scalar)) return *value;
  if (const uint64_t* value = std::get_if<uint64_t>(&scalar)) {
    if (*value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(*value);
  }
  if (const double* value = std::get_if<double>(&scalar)) {
    // -2^63 and 2^63 are doubles; NaN fails both comparisons.
    if (!(*value >= -0x1p63 && *value < 0x1p63) || std::trunc(*value) != *value) {
      return std::nullopt;
    }
    return static_cast<int64_t>(*value);
  }
  return std::nullopt;
}

std::optional<double> ToDouble(const Scalar& scalar) {
  if (const double* value = std::get_if<double>(&scalar)) return *value;
  if (std::holds_alternative<bool>(scalar)) return std::nullopt;
  if (const uint64_t* large = std::get_if<uint64_t>(&scalar)) {
    const double converted = static_cast<double>(*large);
    const bool is_exact = converted < 0x1p64 && static_cast<uint64_t>(converted) == *large;
    return is_exact ? std::optional<double>(converted) : std::nullopt;
  }
  const int64_t value = std::get<int64_t>(scalar);
  const double converted = static_cast<double>(value);
  const bool is_exact = converted < 0x1p63 && static_cast<int64_t>(converted) == value;
  return is_exact ? std::optional<double>(converted) : std::nullopt;
}

std::string FormatScalar(const Scalar& scalar) {
  return std::visit([](auto value) { return fmt::format("{}", value); }, scalar);
}

absl::StatusOr<const GgufEntry*> Require(const GgufFile& file, std::string_view key) {
  const GgufEntry* entry = file.FindEntry(key);
  if (entry == nullptr) {
    return absl::NotFoundError(fmt::format("{}: no metadata {}", file.path(), Quoted(key)));
  }
  return entry;
}

absl::Status WrongType(const GgufFile& file, const GgufEntry& entry, std::string_view expected) {
  return absl::InvalidArgumentError(fmt::format("{}: metadata {} is {} ({}), expected {}",
                                                file.path(), Quoted(entry.key), TypeName(entry),
                                                FormatGgufValue(entry), expected));
}

absl::StatusOr<const GgufEntry*> RequireArray(const GgufFile& file, std::string_view key,
                                              std::string_view expected) {
  TAHMIN_ASSIGN_OR_RETURN(const GgufEntry* entry, Require(file, key));
  if (entry->type != GgufValueType::kArray) return WrongType(file, *entry, expected);
  return entry;
}

// Every element through `convert`; nullopt from it is an error that names the element.
template <typename T, typename Convert>
absl::StatusOr<std::vector<T>> ConvertArray(const GgufFile& file, const GgufEntry& entry,
                                            std::string_view expected, Convert convert) {
  if (!IsScalar(entry.element_type)) return WrongType(file, entry, expected);
  std::vector<T> values;
  values.reserve(entry.num_elements);
  const uint8_t* position = entry.bytes.data();
  for (uint64_t i = 0; i < entry.num_elements; ++i) {
    const auto [scalar, num_bytes] = ReadScalar(entry.element_type, position);
    const std::optional<T> value = convert(scalar);
    if (!value.has_value()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: element {} of metadata {} is {}, expected {}", file.path(), i,
                      Quoted(entry.key), FormatScalar(scalar), expected));
    }
    values.push_back(*value);
    position += num_bytes;
  }
  return values;
}

std::string_view StringAt(const uint8_t* position) {
  return {reinterpret_cast<const char*>(position + 8), Load<uint64_t>(position)};
}

std::string FormatArray(const GgufEntry& entry, size_t max_characters) {
  std::string out = fmt::format("{}[{}]", TypeName(entry.element_type), entry.num_elements);
  if (entry.element_type == GgufValueType::kArray) return out;
  const uint8_t* position = entry.bytes.data();
  for (uint64_t i = 0; i < entry.num_elements; ++i) {
    std::string element;
    if (entry.element_type == GgufValueType::kString) {
      const std::string_view text = StringAt(position);
      element = Quoted(text, max_characters);
      position += 8 + text.size();
    } else {
      const auto [scalar, num_bytes] = ReadScalar(entry.element_type, position);
      element = FormatScalar(scalar);
      position += num_bytes;
    }
    if (out.size() + element.size() + 7 > max_characters) return out + ", ...";
    out += (i == 0 ? ": " : ", ") + element;
  }
  return out;
}

}  // namespace

absl::StatusOr<int64_t> GgufFile::GetInt(std::string_view key) const {
  TAHMIN_ASSIGN_OR_RETURN(const GgufEntry* entry, Require(*this, key));
  constexpr std::string_view kExpected = "an integer that fits 64 bits";
  if (!IsScalar(entry->type)) return WrongType(*this, *entry, kExpected);
  const std::optional<int64_t> value = ToInt(ReadScalar(entry->type, entry->bytes.data()).first);
  if (!value.has_value()) return WrongType(*this, *entry, kExpected);
  return *value;
}

absl::StatusOr<double> GgufFile::GetFloat(std::string_view key) const {
  TAHMIN_ASSIGN_OR_RETURN(const GgufEntry* entry, Require(*this, key));
  constexpr std::string_view kExpected = "a number that a double holds exactly";
  if (!IsScalar(entry->type)) return WrongType(*this, *entry, kExpected);
  const std::optional<double> value = ToDouble(ReadScalar(entry->type, entry->bytes.data()).first);
  if (!value.has_value()) return WrongType(*this, *entry, kExpected);
  return *value;
}

absl::StatusOr<bool> GgufFile::GetBool(std::string_view key) const {
  TAHMIN_ASSIGN_OR_RETURN(const GgufEntry* entry, Require(*this, key));
  if (entry->type != GgufValueType::kBool) return WrongType(*this, *entry, "a bool");
  return entry->bytes[0] != 0;
}

absl::StatusOr<std::string_view> GgufFile::GetString(std::string_view key) const {
  TAHMIN_ASSIGN_OR_RETURN(const GgufEntry* entry, Require(*this, key));
  if (entry->type != GgufValueType::kString) return WrongType(*this, *entry, "a string");
  return std::string_view(reinterpret_cast<const char*>(entry->bytes.data()), entry->bytes.size());
}

absl::StatusOr<std::vector<std::string_view>> GgufFile::GetStringArray(std::string_view key) const {
  constexpr std::string_view kExpected = "an array of strings";
  TAHMIN_ASSIGN_OR_RETURN(const GgufEntry* entry, RequireArray(*this, key, kExpected));
  if (entry->element_type != GgufValueType::kString) return WrongType(*this, *entry, kExpected);
  std::vector<std::string_view> values;
  values.reserve(entry->num_elements);
  const uint8_t* position = entry->bytes.data();
  for (uint64_t i = 0; i < entry->num_elements; ++i) {
    values.push_back(StringAt(position));
    position += 8 + values.back().size();
  }
  return values;
}

absl::StatusOr<std::vector<int64_t>> GgufFile::GetIntArray(std::string_view key) const {
  constexpr std::string_view kExpected = "an array of integers";
  TAHMIN_ASSIGN_OR_RETURN(const GgufEntry* entry, RequireArray(*this, key, kExpected));
  return ConvertArray<int64_t>(*this, *entry, kExpected, [](const Scalar& scalar) {
    const bool* truth = std::get_if<bool>(&scalar);
    return truth != nullptr ? std::optional<int64_t>(*truth ? 1 : 0) : ToInt(scalar);
  });
}

absl::StatusOr<std::vector<double>> GgufFile::GetFloatArray(std::string_view key) const {
  constexpr std::string_view kExpected = "an array of numbers";
  TAHMIN_ASSIGN_OR_RETURN(const GgufEntry* entry, RequireArray(*this, key, kExpected));
  return ConvertArray<double>(*this, *entry, kExpected, ToDouble);
}

std::string FormatGgufValue(const GgufEntry& entry, size_t max_characters) {
  if (entry.type == GgufValueType::kArray) return FormatArray(entry, max_characters);
  if (entry.type == GgufValueType::kString) {
    return Quoted({reinterpret_cast<const char*>(entry.bytes.data()), entry.bytes.size()},
                  max_characters);
  }
  return FormatScalar(ReadScalar(entry.type, entry.bytes.data()).first);
}

}  // namespace tahmin
