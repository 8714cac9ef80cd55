// One line of a file that holds a document a line (datastore_input.h). Errors say what was
// expected.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "apps/datastore_input.h"

namespace tahmin::cli {

absl::StatusOr<InputDocument> ParseJsonLine(const std::string& line);
absl::StatusOr<InputDocument> ParseIdsLine(const std::string& line, int32_t vocab_size);

}  // namespace tahmin::cli
