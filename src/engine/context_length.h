// How much context a model file is good for, from its header alone. Any context can be asked for;
// beyond the usable one the model has never seen such positions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "model/config.h"

namespace tahmin {

struct ContextLength {
  int64_t trained = 0;
  int64_t usable = 0;  // the trained one, or what rope scaling stretches it to
};

ContextLength ContextLengthOf(const ModelConfig& config);
absl::StatusOr<ContextLength> ReadContextLength(const std::string& model_path);

}  // namespace tahmin
