// From the bytes of a GGUF file to its tables, every count, length and offset checked on the way.
// Uniqueness of names is left to GgufFile, which has the maps to see it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "gguf/gguf_file.h"

namespace tahmin::gguf_internal {

struct ParsedGguf {
  uint32_t version = 0;
  std::vector<GgufEntry> entries;
  std::vector<GgufTensor> tensors;
};

// Views in the result point into `bytes`. Errors begin with display_name.
absl::StatusOr<ParsedGguf> ParseGguf(std::span<const uint8_t> bytes, std::string_view display_name);

}  // namespace tahmin::gguf_internal
