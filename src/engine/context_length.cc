#include "engine/context_length.h"

#include <algorithm>
#include <memory>

#include "base/status_macros.h"
#include "gguf/gguf_file.h"

namespace tahmin {

ContextLength ContextLengthOf(const ModelConfig& config) {
  ContextLength length{.trained = config.trained_context, .usable = config.trained_context};
  if (config.rope_scaling == RopeScaling::kNone) return length;
  // Some files give the context before it was stretched, some the one after.
  const int64_t original =
      config.rope_original_context > 0 ? config.rope_original_context : config.trained_context;
  const auto stretched =
      static_cast<int64_t>(static_cast<double>(original) * config.rope_scale_factor);
  length.usable = std::max(length.trained, stretched);
  return length;
}

absl::StatusOr<ContextLength> ReadContextLength(const std::string& model_path) {
  TAHMIN_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> file, GgufFile::Open(model_path));
  TAHMIN_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(*file));
  return ContextLengthOf(config);
}

}  // namespace tahmin
