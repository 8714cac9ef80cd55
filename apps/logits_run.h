// Ids through the same Forward pass and KV cache as decoding, and what is printed of each row.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/output_file.h"
#include "nlohmann/json.hpp"
#include "tahmin/engine.h"

namespace tahmin::cli {

struct LogitsOptions {
  int32_t top = 0;     // most likely ids of each row; 0: none
  int32_t rows = 512;  // ids fed at a time
  bool use_hash = false;
  KvType kv_type = KvType::kF16;
};

struct LogitsRun {
  nlohmann::json positions = nlohmann::json::array();
  int64_t forward_calls = 0;
};

// All ids from an empty context; the raw rows go to `out` unless it is null. CANCELLED after
// Ctrl-C.
absl::StatusOr<LogitsRun> RunLogits(const LogitsOptions& options, Engine& engine,
                                    const std::vector<int32_t>& ids, OutputFile* out);

}  // namespace tahmin::cli
