// The lines of a text that say something, with their numbers for messages.
#pragma once

#include <string_view>
#include <vector>

namespace tahmin {

struct TextLine {
  int number = 1;         // in the text
  std::string_view text;  // of it, without the newline
};

// Lines of spaces, tabs and carriage returns do not count.
std::vector<TextLine> NonBlankLines(std::string_view text);

}  // namespace tahmin
