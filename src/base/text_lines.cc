#include "base/text_lines.h"

#include <algorithm>
#include <cstddef>

namespace tahmin {

std::vector<TextLine> NonBlankLines(std::string_view text) {
  std::vector<TextLine> lines;
  size_t begin = 0;
  for (int number = 1; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) lines.push_back({number, line});
  }
  return lines;
}

}  // namespace tahmin
