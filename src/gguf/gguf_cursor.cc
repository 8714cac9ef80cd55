#include "gguf/gguf_cursor.h"

#include <fmt/format.h>

namespace tahmin::gguf_internal {
namespace {

// Bytes of the well-formed UTF-8 character at text[0], 0 when there is none (RFC 3629).
size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) >= 0xA0)) return 0;
  if ((lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) >= 0x90)) return 0;
  return length;
}

// C0, DEL and C1 (which comes as C2 80 to C2 9F) act on a terminal.
bool IsControlCharacter(std::string_view character) {
  const uint8_t lead = static_cast<uint8_t>(character[0]);
  if (character.size() == 1) return lead < 0x20 || lead == 0x7F;
  return lead == 0xC2 && static_cast<uint8_t>(character[1]) < 0xA0;
}

void AppendEscaped(std::string_view character, std::string* out) {
  if (character == "\n") {
    out->append("\\n");
  } else if (character == "\"" || character == "\\") {
    out->append("\\").append(character);
  } else if (IsControlCharacter(character)) {
    for (char c : character) out->append(fmt::format("\\x{:02x}", static_cast<uint8_t>(c)));
  } else {
    out->append(character);
  }
}

}  // namespace

std::string Quoted(std::string_view text, size_t max_characters) {
  std::string out = "\"";
  size_t num_characters = 0;
  while (!text.empty()) {
    if (num_characters++ == max_characters) return out + "...\"";
    const size_t length = CharacterBytes(text);
    if (length == 0) {
      out += fmt::format("\\x{:02x}", static_cast<uint8_t>(text[0]));
      text.remove_prefix(1);
      continue;
    }
    AppendEscaped(text.substr(0, length), &out);
    text.remove_prefix(length);
  }
  return out + "\"";
}

absl::StatusOr<std::span<const uint8_t>> Cursor::Take(uint64_t num_bytes, std::string_view what) {
  if (num_bytes > remaining()) {
    return absl::DataLossError(
        fmt::format("{}: truncated: {} needs {} bytes at byte {}, the file has {} bytes",
                    display_name_, what, num_bytes, position_, bytes_.size()));
  }
  std::span<const uint8_t> taken = bytes_.subspan(position_, num_bytes);
  position_ += num_bytes;
  return taken;
}

absl::StatusOr<std::string_view> Cursor::ReadString(std::string_view what) {
  TAHMIN_ASSIGN_OR_RETURN(uint64_t length, Read<uint64_t>(what));
  TAHMIN_ASSIGN_OR_RETURN(std::span<const uint8_t> raw, Take(length, what));
  return std::string_view(reinterpret_cast<const char*>(raw.data()), raw.size());
}

absl::Status Cursor::CheckCount(uint64_t count, uint64_t min_bytes, std::string_view what) const {
  if (count <= remaining() / min_bytes) return absl::OkStatus();
  return absl::DataLossError(fmt::format(
      "{}: truncated or damaged: {} at byte {} claims {} items of at least {} bytes each, the file "
      "has {} bytes left",
      display_name_, what, position_, count, min_bytes, remaining()));
}

}  // namespace tahmin::gguf_internal
