#include "tokenizer/utf8.h"

#include <cstdint>

namespace tahmin {
namespace {

bool IsContinuation(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

}  // namespace

size_t Utf8CharacterBytes(std::string_view text) {
  if (text.empty()) return 0;
  const uint8_t first = static_cast<uint8_t>(text[0]);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const size_t num_bytes = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < num_bytes) return 0;
  for (size_t i = 1; i < num_bytes; ++i) {
    if (!IsContinuation(text[i])) return 0;
  }
  const uint8_t second = static_cast<uint8_t>(text[1]);
  if (first == 0xE0 && second < 0xA0) return 0;   // overlong
  if (first == 0xED && second >= 0xA0) return 0;  // surrogate
  if (first == 0xF0 && second < 0x90) return 0;   // overlong
  if (first == 0xF4 && second >= 0x90) return 0;  // beyond U+10FFFF
  return num_bytes;
}

size_t ValidUtf8Prefix(std::string_view text) {
  size_t done = 0;
  while (const size_t num_bytes = Utf8CharacterBytes(text.substr(done))) done += num_bytes;
  return done;
}

size_t InvalidUtf8Prefix(std::string_view text) {
  size_t done = 0;
  while (done < text.size() && Utf8CharacterBytes(text.substr(done)) == 0) ++done;
  return done;
}

}  // namespace tahmin
