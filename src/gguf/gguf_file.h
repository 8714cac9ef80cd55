// A GGUF v2/v3 file, memory-mapped and checked: every count, offset, length and alignment is tested
// against the file before use, so that any bytes at all give an error or a loaded file.
// Little-endian files only; a big-endian file is refused by name. Immutable after Open; readable
// from any thread; views (strings, tensor bytes) live as long as the GgufFile.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor_type.h"

namespace tahmin {

enum class GgufValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// One metadata entry. Scalars are readable as any numeric type that holds the value exactly (a bool
// only as a bool).
struct GgufEntry {
  std::string_view key;
  GgufValueType type = GgufValueType::kUint8;
  GgufValueType element_type = GgufValueType::kUint8;  // of an array; else equal to type
  uint64_t num_elements = 1;                           // of an array
  // The raw value inside the file: a scalar's bytes, a string's characters without its length, an
  // array's elements without its type and count (strings among them each with its length).
  std::span<const uint8_t> bytes;
};

struct GgufTensor {
  std::string name;
  TensorType type = TensorType::kF32;
  // GGUF order: dimensions[0] is the fastest (columns, the input width of a matrix),
  // dimensions[1] the number of rows (outputs). 1 to 4 dimensions, each >= 1.
  std::vector<int64_t> dimensions;
  std::span<const uint8_t> bytes;  // exactly the tensor's size

  int64_t columns() const { return dimensions[0]; }
  int64_t rows() const;  // product of the other dimensions
};

class GgufFile {
 public:
  // NOT_FOUND and the like for a file that cannot be opened, DATA_LOSS for a truncated one,
  // UNIMPLEMENTED (with the name) for what this build does not read, else INVALID_ARGUMENT.
  static absl::StatusOr<std::unique_ptr<GgufFile>> Open(const std::string& path);
  // Parses bytes in memory (tests, fuzzing). `bytes` must outlive the result.
  static absl::StatusOr<std::unique_ptr<GgufFile>> Parse(std::span<const uint8_t> bytes,
                                                         std::string display_name);
  ~GgufFile();

  const std::string& path() const;
  uint32_t version() const;
  uint64_t file_bytes() const;
  const std::vector<GgufEntry>& entries() const;
  const std::vector<GgufTensor>& tensors() const;

  const GgufEntry* FindEntry(std::string_view key) const;     // nullptr: absent
  const GgufTensor* FindTensor(std::string_view name) const;  // nullptr: absent

  // Typed access. NOT_FOUND names the key; INVALID_ARGUMENT says the type or range found.
  absl::StatusOr<int64_t> GetInt(std::string_view key) const;
  absl::StatusOr<double> GetFloat(std::string_view key) const;
  absl::StatusOr<bool> GetBool(std::string_view key) const;
  absl::StatusOr<std::string_view> GetString(std::string_view key) const;
  absl::StatusOr<std::vector<std::string_view>> GetStringArray(std::string_view key) const;
  absl::StatusOr<std::vector<int64_t>> GetIntArray(std::string_view key) const;  // bool counts too
  absl::StatusOr<std::vector<double>> GetFloatArray(std::string_view key) const;

  // Tells the kernel that these bytes and what it mapped around them are not needed in memory for
  // now (source pages after packing): MappedFile::DropPages.
  void DropPages(std::span<const uint8_t> bytes) const;

 private:
  GgufFile();
  struct State;
  std::unique_ptr<State> state_;
};

// A value as a person reads it: strings quoted and shortened, arrays with their length.
std::string FormatGgufValue(const GgufEntry& entry, size_t max_characters = 80);

}  // namespace tahmin
