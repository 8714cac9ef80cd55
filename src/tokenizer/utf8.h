// Where text is UTF-8 and where it is not (RFC 3629: no surrogates, nothing overlong, at most
// U+10FFFF). For text of any origin; reads nothing beyond the view.
#pragma once

#include <cstddef>
#include <string_view>

namespace tahmin {

// Bytes of the character at the start of `text`; 0 when there is none (empty, or not UTF-8).
size_t Utf8CharacterBytes(std::string_view text);
// Length of the longest prefix that is UTF-8, and of the longest one in which no character starts.
size_t ValidUtf8Prefix(std::string_view text);
size_t InvalidUtf8Prefix(std::string_view text);

}  // namespace tahmin
