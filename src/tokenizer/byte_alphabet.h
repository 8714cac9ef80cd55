// GPT-2's printable stand-ins for bytes: the printable characters of Latin-1 stand for themselves,
// the other bytes, in order, for U+0100 and up. Vocabularies of byte-level BPE are spelled in it.
#pragma once

#include <string>
#include <string_view>

namespace tahmin {

void AppendByteAlphabet(std::string_view bytes, std::string& out);
std::string EncodeByteAlphabet(std::string_view bytes);
// The other way. Characters outside the alphabet, and bytes that are not UTF-8, stay as they are.
std::string DecodeByteAlphabet(std::string_view spelled);

}  // namespace tahmin
