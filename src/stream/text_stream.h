// Turns committed tokens into text that can be shown at once: deltas are whole UTF-8 characters and
// join to the complete text, which depends on the bytes only, never on how they were cut into
// tokens. Bytes that can never form a character become one U+FFFD for each maximal subpart, as
// WHATWG decoding does; bytes left over at the end become one U+FFFD. One object per request; not
// thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tahmin {

class Utf8Assembler {
 public:
  // Valid UTF-8 that is complete after adding `bytes`; an unfinished tail is kept back.
  std::string Append(std::string_view bytes);
  // The replacement for an unfinished tail, or nothing.
  std::string Finish();

  bool has_pending() const { return !pending_.empty(); }
  // Whether `byte` would go on with the unfinished character (false: it would break it off).
  bool WouldContinue(char byte) const;

 private:
  std::string pending_;  // a proper prefix of some character, at most 3 bytes
};

bool IsValidUtf8(std::string_view text);

}  // namespace tahmin
