#include "tokenizer/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "tokenizer/utf8.h"

namespace tahmin {
namespace {

struct Alphabet {
  std::array<uint16_t, 256> code_points{};  // byte -> character
  std::array<int16_t, 324> bytes{};         // character -> byte; -1: not in the alphabet
};

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet;
  for (int16_t& byte : alphabet.bytes) byte = -1;
  uint16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_printable =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const uint16_t code_point = is_printable ? static_cast<uint16_t>(byte) : next++;
    alphabet.code_points[byte] = code_point;
    alphabet.bytes[code_point] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

void AppendByteAlphabet(std::string_view bytes, std::string& out) {
  for (const char c : bytes) {
    const uint16_t code_point = kAlphabet.code_points[static_cast<uint8_t>(c)];
    if (code_point < 0x80) {
      out.push_back(static_cast<char>(code_point));
      continue;
    }
    out.push_back(static_cast<char>(0xC0 | (code_point >> 6)));
    out.push_back(static_cast<char>(0x80 | (code_point & 0x3F)));
  }
}

std::string EncodeByteAlphabet(std::string_view bytes) {
  std::string out;
  AppendByteAlphabet(bytes, out);
  return out;
}

std::string DecodeByteAlphabet(std::string_view spelled) {
  std::string out;
  out.reserve(spelled.size());
  while (!spelled.empty()) {
    const size_t num_bytes = Utf8CharacterBytes(spelled);
    size_t code_point = kAlphabet.bytes.size();
    if (num_bytes == 1) code_point = static_cast<uint8_t>(spelled[0]);
    if (num_bytes == 2) code_point = ((spelled[0] & 0x1F) << 6) | (spelled[1] & 0x3F);
    const size_t used = num_bytes == 0 ? 1 : num_bytes;
    if (code_point < kAlphabet.bytes.size() && kAlphabet.bytes[code_point] >= 0) {
      out.push_back(static_cast<char>(kAlphabet.bytes[code_point]));
    } else {
      out.append(spelled.substr(0, used));
    }
    spelled.remove_prefix(used);
  }
  return out;
}

}  // namespace tahmin
