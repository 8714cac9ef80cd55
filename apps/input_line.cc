#include "apps/input_line.h"

#include <cstdio>

namespace tahmin::cli {

bool GetInputLine(std::istream& stream, std::string* line) {
  line->clear();
  std::streambuf& buffer = *stream.rdbuf();
  int c = buffer.sbumpc();
  if (c == EOF) stream.setstate(std::ios::eofbit);
  for (; c != EOF && c != '\n' && line->size() <= kMostLineBytes; c = buffer.sbumpc())
    line->push_back(static_cast<char>(c));
  return !line->empty() || stream.good();
}

}  // namespace tahmin::cli
