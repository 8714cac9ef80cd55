// A reading position inside the bytes of a GGUF file. Every read is checked against the end of the
// file first, and says what was wanted, where, and how many bytes the file has.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/status_macros.h"

namespace tahmin::gguf_internal {

// Text out of the file for a message: control characters and bytes that are not UTF-8 are escaped,
// long text is shortened, so that a hostile file cannot write to the terminal.
std::string Quoted(std::string_view text, size_t max_characters = 80);

class Cursor {
 public:
  Cursor(std::span<const uint8_t> bytes, std::string_view display_name)
      : bytes_(bytes), display_name_(display_name) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }
  std::string_view display_name() const { return display_name_; }

  // The next num_bytes bytes. `what` goes into the message.
  absl::StatusOr<std::span<const uint8_t>> Take(uint64_t num_bytes, std::string_view what);

  template <typename T>
  absl::StatusOr<T> Read(std::string_view what) {
    TAHMIN_ASSIGN_OR_RETURN(std::span<const uint8_t> raw, Take(sizeof(T), what));
    T value;
    std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }

  // A length (uint64) and that many bytes.
  absl::StatusOr<std::string_view> ReadString(std::string_view what);

  // INVALID_ARGUMENT when `count` things of at least `min_bytes` each cannot fit in what remains,
  // so that nothing is ever allocated for a count that the file cannot hold.
  absl::Status CheckCount(uint64_t count, uint64_t min_bytes, std::string_view what) const;

 private:
  std::span<const uint8_t> bytes_;
  std::string_view display_name_;
  uint64_t position_ = 0;
};

}  // namespace tahmin::gguf_internal
