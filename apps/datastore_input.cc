#include "apps/datastore_input.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "apps/document_lines.h"
#include "apps/input_line.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "tokenizer/utf8.h"

namespace tahmin::cli {

namespace {

namespace fs = std::filesystem;

absl::Status CannotRead(const std::string& path, const std::error_code& error) {
  return absl::ErrnoToStatus(error.value(), fmt::format("{}: cannot read", path));
}

absl::Status ListFolder(const std::string& folder, std::vector<InputFile>* files) {
  std::error_code error;
  const size_t first = files->size();
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied,
                                         error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const bool is_hidden = entry->path().filename().string().starts_with('.');
    std::error_code ignored;
    if (is_hidden || entry->is_symlink(ignored)) {
      entry.disable_recursion_pending();
      continue;
    }
    if (!entry->is_regular_file(ignored)) continue;
    const uint64_t num_bytes = entry->file_size(ignored);
    if (!ignored) files->push_back({entry->path().string(), num_bytes, true});
  }
  if (error) return CannotRead(folder, error);
  std::sort(files->begin() + static_cast<int64_t>(first), files->end(),
            [](const InputFile& a, const InputFile& b) { return a.path < b.path; });
  return absl::OkStatus();
}

absl::Status ReadLines(
    const InputFile& file, std::ifstream& stream,
    const std::function<absl::StatusOr<InputDocument>(const std::string&)>& parse,
    const std::function<bool(InputDocument)>& take) {
  std::string line;
  for (int64_t number = 1; GetInputLine(stream, &line); ++number) {
    if (line.size() > kMostLineBytes) {
      return absl::InvalidArgumentError(fmt::format(
          "{}, line {}: expected at most {} bytes in a line", file.path, number, kMostLineBytes));
    }
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    absl::StatusOr<InputDocument> document = parse(line);
    if (!document.ok()) {
      return absl::InvalidArgumentError(fmt::format("{}, line {}: {}", file.path, number,
                                                    std::string(document.status().message())));
    }
    if (!take(*std::move(document))) return absl::OkStatus();
  }
  if (stream.bad()) return CannotRead(file.path, std::error_code(errno, std::generic_category()));
  return absl::OkStatus();
}

// Refused where no tokenizer would take it; an endless source must not take all memory.
absl::StatusOr<std::string> ReadText(const InputFile& file, std::ifstream& stream) {
  constexpr size_t kMostBytes = 1 << 30;
  constexpr size_t kBlockBytes = 1 << 20;
  std::string text;
  size_t size = 0;
  do {
    text.resize(size + kBlockBytes);
    stream.read(&text[size], kBlockBytes);
    size += static_cast<size_t>(stream.gcount());
  } while (stream && size <= kMostBytes);
  if (stream.bad()) return CannotRead(file.path, std::error_code(errno, std::generic_category()));
  if (size > kMostBytes) {
    return absl::ResourceExhaustedError(
        fmt::format("{}: expected a text of at most {} bytes", file.path, kMostBytes));
  }
  text.resize(size);
  text.shrink_to_fit();
  return text;
}

}  // namespace

absl::StatusOr<std::vector<InputFile>> ListInputFiles(const std::vector<std::string>& inputs) {
  std::vector<InputFile> files;
  for (const std::string& input : inputs) {
    std::error_code error;
    const fs::file_status status = fs::status(input, error);
    if (!fs::exists(status)) {
      if (!error) error = std::make_error_code(std::errc::no_such_file_or_directory);
      return CannotRead(input, error);
    }
    if (fs::is_directory(status)) {
      TAHMIN_RETURN_IF_ERROR(ListFolder(input, &files));
      continue;
    }
    const uint64_t num_bytes = fs::is_regular_file(status) ? fs::file_size(input, error) : 0;
    files.push_back({input, error ? 0 : num_bytes, false});
  }
  return files;
}

absl::StatusOr<bool> ReadDocuments(const InputFile& file, int32_t vocab_size,
                                   const std::function<bool(InputDocument)>& take) {
  std::ifstream stream(file.path, std::ios::binary);
  if (!stream) return CannotRead(file.path, std::error_code(errno, std::generic_category()));
  const std::string kind = fs::path(file.path).extension();
  if (kind == ".jsonl") TAHMIN_RETURN_IF_ERROR(ReadLines(file, stream, ParseJsonLine, take));
  if (kind == ".ids") {
    const auto parse = [vocab_size](const std::string& line) {
      return ParseIdsLine(line, vocab_size);
    };
    TAHMIN_RETURN_IF_ERROR(ReadLines(file, stream, parse, take));
  }
  if (kind == ".jsonl" || kind == ".ids") return true;
  InputDocument document;
  TAHMIN_ASSIGN_OR_RETURN(document.text, ReadText(file, stream));
  if (document.text.find('\0') != std::string::npos ||
      ValidUtf8Prefix(document.text) != document.text.size()) {
    if (file.is_from_folder) return false;
    return absl::InvalidArgumentError(
        fmt::format("{}: expected text in UTF-8, found other bytes", file.path));
  }
  take(std::move(document));
  return true;
}

}  // namespace tahmin::cli
