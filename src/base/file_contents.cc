#include "base/file_contents.h"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>

#include "fmt/format.h"

namespace tahmin {
namespace {

constexpr size_t kMostBytes = size_t{256} << 20;

absl::StatusOr<std::string> ReadStream(std::FILE* stream, const std::string& name) {
  std::string text;
  char buffer[1 << 16];
  while (const size_t count = std::fread(buffer, 1, sizeof(buffer), stream)) {
    text.append(buffer, count);
    if (text.size() > kMostBytes) {
      return absl::ResourceExhaustedError(
          fmt::format("{}: expected at most {} bytes, found more", name, kMostBytes));
    }
  }
  if (std::ferror(stream)) {
    return absl::DataLossError(fmt::format("cannot read {}: {}", name, std::strerror(errno)));
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(path.c_str(), "rb"),
                                                               std::fclose);
  if (stream == nullptr) {
    return absl::NotFoundError(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  }
  return ReadStream(stream.get(), path);
}

absl::StatusOr<std::string> ReadStandardInput() { return ReadStream(stdin, "standard input"); }

}  // namespace tahmin
