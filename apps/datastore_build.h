// `tahmin datastore build`: reads texts, tokenizes them on all threads, and writes the store.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tokenizer/tokenizer.h"

namespace tahmin::cli {

// The tokenizer of a model file. `pre` is the value of --pre; empty: what the file says.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& model_path,
                                                         const std::string& pre);

struct DatastoreBuildFlags {
  std::string model_path, pre_tokenizer, output_path;
  std::vector<std::string> inputs;
  int64_t max_tokens = 0;  // 0: all
  int64_t chunk_tokens = 128 << 20;
  int32_t num_threads = 0;  // 0: all cores
};

// CANCELLED when Ctrl-C ended it: nothing is left behind.
absl::Status BuildDatastore(const DatastoreBuildFlags& flags);

}  // namespace tahmin::cli
