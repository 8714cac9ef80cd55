// Writes a GGUF v3 file (tests, later heads): metadata and tensors are collected, then written in
// one go to a temporary name beside the target and renamed, so a half-written file is never left.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/tensor_type.h"
#include "gguf/gguf_file.h"

namespace tahmin {

class GgufWriter {
 public:
  GgufWriter();
  ~GgufWriter();

  void AddUint32(std::string_view key, uint32_t value);
  void AddInt32(std::string_view key, int32_t value);
  void AddUint64(std::string_view key, uint64_t value);
  void AddFloat32(std::string_view key, float value);
  void AddBool(std::string_view key, bool value);
  void AddString(std::string_view key, std::string_view value);
  void AddStringArray(std::string_view key, const std::vector<std::string>& values);
  void AddInt32Array(std::string_view key, const std::vector<int32_t>& values);
  void AddFloat32Array(std::string_view key, const std::vector<float>& values);

  // Any type: `value` is the value as the file holds it (a string with its length, an array with
  // its element type and count). A key may be added once; general.alignment only through AddUint32.
  void AddValue(std::string_view key, GgufValueType type, std::span<const uint8_t> value);

  // `bytes` are copied; their number must fit the type and dimensions (GGUF order, columns first).
  absl::Status AddTensor(std::string_view name, TensorType type,
                         const std::vector<int64_t>& dimensions, std::span<const uint8_t> bytes);

  std::vector<uint8_t> ToBytes() const;
  absl::Status Write(const std::string& path) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tahmin
