// A file that a command writes: complete or not there at all. What exists and is no regular file (a
// device, a pipe) is written in place: replacing it by a file would destroy it.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tahmin::cli {

class OutputFile {
 public:
  // Before the work whose result it takes, so that a wrong path costs nothing.
  static absl::StatusOr<OutputFile> Open(const std::string& flag, const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();  // without Commit nothing is left behind

  void Write(std::string_view bytes);
  absl::Status Commit();  // an error of any Write appears here

 private:
  OutputFile() = default;
  absl::Status Failure() const;

  std::string flag_, path_;
  std::string partial_path_;  // empty: written in place
  std::FILE* stream_ = nullptr;
  int first_error_ = 0;  // errno of the first Write that failed
};

}  // namespace tahmin::cli
