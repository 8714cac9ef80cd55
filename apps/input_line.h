// Lines of files and of standard input, of which an endless one does not take all memory.
#pragma once

#include <cstddef>
#include <istream>
#include <string>

namespace tahmin::cli {

constexpr size_t kMostLineBytes = size_t{1} << 28;

// A line without its end, or the first kMostLineBytes + 1 bytes of a longer one, which callers
// refuse. False at the end of the stream.
bool GetInputLine(std::istream& stream, std::string* line);

}  // namespace tahmin::cli
