#include "model/architecture.h"

namespace tahmin {

std::span<const ArchitectureTraits* const> Architectures() {
  static const ArchitectureTraits* const kAll[] = {
      &LlamaArchitecture(),
      &Qwen2Architecture(),
      &Qwen3Architecture(),
  };
  return kAll;
}

const ArchitectureTraits* FindArchitecture(std::string_view name) {
  for (const ArchitectureTraits* traits : Architectures()) {
    if (traits->name == name) return traits;
  }
  return nullptr;
}

const ArchitectureTraits& TraitsOf(Architecture architecture) {
  return *Architectures()[static_cast<size_t>(architecture)];
}

int64_t DimensionSize(Dimension dimension, const ModelConfig& config) {
  switch (dimension) {
    case Dimension::kEmbedding:
      return config.embedding_length;
    case Dimension::kQueryWidth:
      return config.query_width();
    case Dimension::kKvWidth:
      return config.kv_width();
    case Dimension::kFeedForward:
      return config.feed_forward_length;
    case Dimension::kHead:
      return config.head_dim;
  }
  return 0;
}

}  // namespace tahmin
