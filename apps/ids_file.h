// A file of token ids separated by white space.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tahmin::cli {

// At least one id, each from 0 to vocab_size - 1; an error shows the first word that is none.
absl::StatusOr<std::vector<int32_t>> ReadIds(const std::string& path, int32_t vocab_size);

}  // namespace tahmin::cli
