#include "apps/ids_file.h"

#include <cctype>
#include <cstdlib>

#include "base/file_contents.h"
#include "base/status_macros.h"
#include "fmt/format.h"

namespace tahmin::cli {

namespace {

// What an error shows of the text at `cursor`: one word, at most 20 bytes, nothing unprintable.
std::string FirstWord(const char* cursor, const char* end) {
  std::string word;
  for (; cursor < end && word.size() < 20; ++cursor) {
    const auto byte = static_cast<unsigned char>(*cursor);
    if (std::isspace(byte)) break;
    word += std::isprint(byte) ? *cursor : '?';
  }
  return word;
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> ReadIds(const std::string& path, int32_t vocab_size) {
  TAHMIN_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  std::vector<int32_t> ids;
  const char* cursor = text.c_str();
  const char* const end = cursor + text.size();
  while (cursor < end) {
    if (std::isspace(static_cast<unsigned char>(*cursor))) {
      ++cursor;
      continue;
    }
    char* after = nullptr;
    const long long id = std::strtoll(cursor, &after, 10);
    const bool ends_well =
        after != cursor && (after == end || std::isspace(static_cast<unsigned char>(*after)));
    if (!ends_well || id < 0 || id >= vocab_size) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: expected token ids from 0 to {} separated by white space, found '{}' as id {}", path,
          vocab_size - 1, FirstWord(cursor, end), ids.size()));
    }
    ids.push_back(static_cast<int32_t>(id));
    cursor = after;
  }
  if (ids.empty())
    return absl::InvalidArgumentError(
        fmt::format("{}: expected at least one id, found none", path));
  return ids;
}

}  // namespace tahmin::cli
