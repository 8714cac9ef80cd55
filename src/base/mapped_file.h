// A file's bytes, mapped for reading.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace tahmin {

class MappedFile {
 public:
  MappedFile() = default;  // no bytes
  // INVALID_ARGUMENT: not a regular file. DATA_LOSS: it has 0 bytes. Else what the system says.
  // Each message begins with the path.
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const uint8_t> bytes() const { return bytes_; }  // valid while the object lives
  // Tells the system that the pages of `part` are not needed for now, nor the neighbours that it
  // may have mapped along with them; what is needed after all is read again. So a file read and
  // dropped part by part is never in memory but for one part. Any thread may read meanwhile.
  // Nothing happens for bytes of something else.
  void DropPages(std::span<const uint8_t> part) const;

 private:
  std::span<const uint8_t> bytes_;
};

}  // namespace tahmin
