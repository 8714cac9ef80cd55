#include "model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/status_macros.h"
#include "model/architecture.h"

namespace tahmin {
namespace {

constexpr std::string_view kKnownKeys[] = {
    "context_length",
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "vocab_size",          // the tensors say it
    "tensor_data_layout",  // how the converter's source was laid out
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.causal",
    "attention.sliding_window",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.attn_factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
};

// Features that are not implemented, and the value (besides zero) that means "not used".
struct UnsupportedKey {
  std::string_view suffix;
  double neutral;
};
constexpr UnsupportedKey kUnsupportedKeys[] = {
    {"expert_count", 0},
    {"expert_used_count", 0},
    {"expert_shared_count", 0},
    {"expert_feed_forward_length", 0},
    {"leading_dense_block_count", 0},
    {"interleave_moe_layer_step", 0},
    {"nextn_predict_layers", 0},
    {"logit_scale", 1},
    {"residual_scale", 1},
    {"embedding_scale", 1},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"use_parallel_residual", 0},
    {"pooling_type", 0},
    {"attention.scale", 0},
    {"attention.max_alibi_bias", 0},
    {"attention.clamp_kqv", 0},
    {"attention.temperature_length", 0},
    {"rope.scaling.yarn_log_multiplier", 0},
    {"rope.scaling.yarn_attn_factor", 1},
};

class ConfigReader {
 public:
  ConfigReader(const GgufFile& file, std::string_view prefix) : file_(file), prefix_(prefix) {}

  std::string Key(std::string_view suffix) const { return fmt::format("{}.{}", prefix_, suffix); }
  bool Has(std::string_view suffix) const { return file_.FindEntry(Key(suffix)) != nullptr; }

  // A whole number in [low, high]; an array counts when all of its elements are equal.
  absl::StatusOr<int64_t> Int(std::string_view suffix, int64_t low, int64_t high) const {
    const std::string key = Key(suffix);
    const GgufEntry* entry = file_.FindEntry(key);
    if (entry == nullptr) {
      return absl::InvalidArgumentError(fmt::format("missing metadata key {}", key));
    }
    int64_t value = 0;
    if (entry->type == GgufValueType::kArray) {
      TAHMIN_ASSIGN_OR_RETURN(value, UniformElement(key));
    } else {
      TAHMIN_ASSIGN_OR_RETURN(value, file_.GetInt(key));
    }
    if (value < low || value > high) {
      return absl::InvalidArgumentError(
          fmt::format("{} is {}, expected {} to {}", key, value, low, high));
    }
    return value;
  }
  absl::StatusOr<int64_t> IntOr(std::string_view suffix, int64_t fallback, int64_t low,
                                int64_t high) const {
    return Has(suffix) ? Int(suffix, low, high) : absl::StatusOr<int64_t>(fallback);
  }

  // A finite number in (0, inf), or [0, inf) with zero_allowed.
  absl::StatusOr<float> PositiveOr(std::string_view suffix, float fallback,
                                   bool zero_allowed = false) const {
    if (!Has(suffix)) return fallback;
    const std::string key = Key(suffix);
    TAHMIN_ASSIGN_OR_RETURN(const double wide, file_.GetFloat(key));
    const float value = static_cast<float>(wide);
    if (!std::isfinite(value) || value < 0 || (value == 0 && !zero_allowed)) {
      return absl::InvalidArgumentError(fmt::format("{} is {}, expected a finite number {} 0", key,
                                                    wide, zero_allowed ? ">=" : ">"));
    }
    return value;
  }

  // A number or a truth value, as a number; empty when it is something else.
  std::optional<double> Scalar(std::string_view suffix) const {
    const std::string key = Key(suffix);
    if (absl::StatusOr<double> value = file_.GetFloat(key); value.ok()) return *value;
    if (absl::StatusOr<int64_t> value = file_.GetInt(key); value.ok()) return *value;
    if (absl::StatusOr<bool> value = file_.GetBool(key); value.ok()) return *value ? 1 : 0;
    return std::nullopt;
  }

 private:
  absl::StatusOr<int64_t> UniformElement(const std::string& key) const {
    TAHMIN_ASSIGN_OR_RETURN(const std::vector<int64_t> values, file_.GetIntArray(key));
    if (values.empty()) return absl::InvalidArgumentError(fmt::format("{} is an empty array", key));
    if (std::ranges::any_of(values, [&](int64_t value) { return value != values[0]; })) {
      return absl::UnimplementedError(
          fmt::format("{} differs from layer to layer: not supported", key));
    }
    return values[0];
  }

  const GgufFile& file_;
  std::string_view prefix_;
};

absl::StatusOr<const ArchitectureTraits*> ReadArchitecture(const GgufFile& file) {
  if (file.FindEntry("general.architecture") == nullptr) {
    return absl::InvalidArgumentError("missing metadata key general.architecture");
  }
  TAHMIN_ASSIGN_OR_RETURN(const std::string_view name, file.GetString("general.architecture"));
  if (const ArchitectureTraits* traits = FindArchitecture(name)) return traits;
  std::string known;
  for (const ArchitectureTraits* traits : Architectures()) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", traits->name);
  }
  return absl::UnimplementedError(
      fmt::format("architecture \"{}\" is not supported (supported: {})", name, known));
}

// A file that is a whole model: no shard, no adapter.
absl::Status CheckFileKind(const GgufFile& file) {
  if (file.FindEntry("split.count") != nullptr) {
    TAHMIN_ASSIGN_OR_RETURN(const int64_t num_parts, file.GetInt("split.count"));
    if (num_parts > 1) {
      return absl::UnimplementedError(
          fmt::format("split.count is {}: files split in parts are not supported", num_parts));
    }
  }
  if (file.FindEntry("general.type") != nullptr) {
    TAHMIN_ASSIGN_OR_RETURN(const std::string_view type, file.GetString("general.type"));
    if (type != "model") {
      return absl::UnimplementedError(
          fmt::format("general.type is \"{}\", expected \"model\"", type));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckKey(const ConfigReader& reader, std::string_view suffix) {
  if (std::ranges::find(kKnownKeys, suffix) != std::end(kKnownKeys)) return absl::OkStatus();
  for (const UnsupportedKey& unsupported : kUnsupportedKeys) {
    if (unsupported.suffix != suffix) continue;
    const std::optional<double> value = reader.Scalar(suffix);
    if (value.has_value() && (*value == 0 || *value == unsupported.neutral)) {
      return absl::OkStatus();
    }
    return absl::UnimplementedError(
        fmt::format("{} is set: this feature is not supported", reader.Key(suffix)));
  }
  return absl::UnimplementedError(
      fmt::format("metadata key {} is not supported, and ignoring it could change the text",
                  reader.Key(suffix)));
}

absl::Status CheckKeys(const GgufFile& file, const ConfigReader& reader) {
  const std::string prefix = reader.Key("");
  for (const GgufEntry& entry : file.entries()) {
    if (!entry.key.starts_with(prefix)) continue;
    TAHMIN_RETURN_IF_ERROR(CheckKey(reader, entry.key.substr(prefix.size())));
  }
  if (reader.Has("attention.causal")) {
    TAHMIN_ASSIGN_OR_RETURN(const bool is_causal, file.GetBool(reader.Key("attention.causal")));
    if (!is_causal) {
      return absl::UnimplementedError(fmt::format("{} is false: only causal attention is supported",
                                                  reader.Key("attention.causal")));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadHeads(const ConfigReader& reader, ModelConfig& config) {
  constexpr int64_t kMaxHeads = 4096, kMaxHeadDim = 4096;
  TAHMIN_ASSIGN_OR_RETURN(config.num_heads, reader.Int("attention.head_count", 1, kMaxHeads));
  TAHMIN_ASSIGN_OR_RETURN(config.num_kv_heads, reader.IntOr("attention.head_count_kv",
                                                            config.num_heads, 1, config.num_heads));
  if (config.num_heads % config.num_kv_heads != 0) {
    return absl::InvalidArgumentError(fmt::format(
        "{} is {}, which does not divide {} = {}", reader.Key("attention.head_count_kv"),
        config.num_kv_heads, reader.Key("attention.head_count"), config.num_heads));
  }
  if (reader.Has("attention.key_length")) {
    TAHMIN_ASSIGN_OR_RETURN(config.head_dim, reader.Int("attention.key_length", 1, kMaxHeadDim));
  } else if (config.embedding_length % config.num_heads == 0) {
    config.head_dim = config.embedding_length / config.num_heads;
  } else {
    return absl::InvalidArgumentError(fmt::format(
        "{} = {} does not divide {} = {}, and {} is missing", reader.Key("attention.head_count"),
        config.num_heads, reader.Key("embedding_length"), config.embedding_length,
        reader.Key("attention.key_length")));
  }
  TAHMIN_ASSIGN_OR_RETURN(const int64_t value_length,
                          reader.IntOr("attention.value_length", config.head_dim, 1, kMaxHeadDim));
  if (value_length != config.head_dim) {
    return absl::UnimplementedError(
        fmt::format("{} is {} and the key length {}: different lengths are not supported",
                    reader.Key("attention.value_length"), value_length, config.head_dim));
  }
  TAHMIN_ASSIGN_OR_RETURN(
      config.rotary_dimensions,
      reader.IntOr("rope.dimension_count", config.head_dim, 2, config.head_dim));
  if (config.rotary_dimensions % 2 != 0) {
    return absl::InvalidArgumentError(fmt::format("{} is {}, expected an even number",
                                                  reader.Key("rope.dimension_count"),
                                                  config.rotary_dimensions));
  }
  return absl::OkStatus();
}

absl::StatusOr<RopeScaling> ReadScalingType(const GgufFile& file, const ConfigReader& reader) {
  // A factor without a type means linear, as in files older than the type key.
  if (!reader.Has("rope.scaling.type")) return RopeScaling::kLinear;
  const std::string key = reader.Key("rope.scaling.type");
  TAHMIN_ASSIGN_OR_RETURN(const std::string_view name, file.GetString(key));
  if (name == "none") return RopeScaling::kNone;
  if (name == "linear") return RopeScaling::kLinear;
  if (name == "yarn") return RopeScaling::kYarn;
  return absl::UnimplementedError(
      fmt::format("{} is \"{}\": not supported (supported: none, linear, yarn)", key, name));
}

absl::Status ReadYarn(const ConfigReader& reader, ModelConfig& config) {
  TAHMIN_ASSIGN_OR_RETURN(config.yarn_beta_fast,
                          reader.PositiveOr("rope.scaling.yarn_beta_fast", config.yarn_beta_fast));
  TAHMIN_ASSIGN_OR_RETURN(config.yarn_beta_slow,
                          reader.PositiveOr("rope.scaling.yarn_beta_slow", config.yarn_beta_slow));
  TAHMIN_ASSIGN_OR_RETURN(
      config.yarn_extrapolation_factor,
      reader.PositiveOr("rope.scaling.yarn_ext_factor", config.yarn_extrapolation_factor, true));
  if (config.rope_base <= 1.0f) {
    return absl::InvalidArgumentError(fmt::format("{} is {}: yarn needs a base above 1",
                                                  reader.Key("rope.freq_base"), config.rope_base));
  }
  if (config.yarn_extrapolation_factor != 0.0f && config.rope_scale_factor > 1.0f) {
    config.yarn_attention_factor *= 0.1f * std::log(config.rope_scale_factor) + 1.0f;
  }
  return absl::OkStatus();
}

absl::Status ReadRope(const GgufFile& file, const ConfigReader& reader, ModelConfig& config) {
  TAHMIN_ASSIGN_OR_RETURN(config.rope_base, reader.PositiveOr("rope.freq_base", 10000.0f));
  TAHMIN_ASSIGN_OR_RETURN(config.rope_scaling, ReadScalingType(file, reader));
  const std::string_view factor_key =
      reader.Has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
  TAHMIN_ASSIGN_OR_RETURN(float factor, reader.PositiveOr(factor_key, 1.0f, true));
  if (factor == 0.0f) factor = 1.0f;  // files say 0 for "not scaled"
  config.rope_scale_factor = config.rope_scaling == RopeScaling::kNone ? 1.0f : factor;
  if (config.rope_scaling == RopeScaling::kLinear && config.rope_scale_factor == 1.0f) {
    config.rope_scaling = RopeScaling::kNone;
  }
  TAHMIN_ASSIGN_OR_RETURN(config.yarn_attention_factor,
                          reader.PositiveOr("rope.scaling.attn_factor", 1.0f));
  TAHMIN_ASSIGN_OR_RETURN(config.rope_original_context,
                          reader.IntOr("rope.scaling.original_context_length",
                                       config.trained_context, 1, config.trained_context * 1024));
  return config.rope_scaling == RopeScaling::kYarn ? ReadYarn(reader, config) : absl::OkStatus();
}

absl::Status ReadSlidingWindow(const ConfigReader& reader, const ArchitectureTraits& traits,
                               ModelConfig& config) {
  constexpr std::string_view kSuffix = "attention.sliding_window";
  TAHMIN_ASSIGN_OR_RETURN(config.sliding_window,
                          reader.IntOr(kSuffix, 0, 0, std::numeric_limits<int32_t>::max()));
  if (config.sliding_window != 0 && !traits.has_sliding_window) {
    return absl::UnimplementedError(fmt::format(
        "{} is set: sliding windows are not supported for this architecture", reader.Key(kSuffix)));
  }
  return absl::OkStatus();
}

absl::Status ReadVocabulary(const GgufFile& file, ModelConfig& config) {
  constexpr int64_t kMaxVocabulary = int64_t{1} << 24;
  const GgufTensor* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr) return absl::InvalidArgumentError("missing tensor token_embd.weight");
  const GgufTensor* output = file.FindTensor("output.weight");
  const GgufTensor& head = output != nullptr ? *output : *embedding;
  if (head.rows() > kMaxVocabulary) {
    return absl::InvalidArgumentError(fmt::format("tensor {} has {} rows, expected at most {}",
                                                  head.name, head.rows(), kMaxVocabulary));
  }
  config.vocab_size = static_cast<int32_t>(head.rows());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ReadModelConfig(const GgufFile& file) {
  TAHMIN_RETURN_IF_ERROR(CheckFileKind(file));
  TAHMIN_ASSIGN_OR_RETURN(const ArchitectureTraits* traits, ReadArchitecture(file));
  const ConfigReader reader(file, traits->name);
  TAHMIN_RETURN_IF_ERROR(CheckKeys(file, reader));

  ModelConfig config;
  config.architecture = traits->architecture;
  config.architecture_name = std::string(traits->name);
  config.rope_style = traits->rope_style;
  config.has_qk_norm = traits->has_qk_norm;
  TAHMIN_ASSIGN_OR_RETURN(config.num_layers, reader.Int("block_count", 1, 1024));
  TAHMIN_ASSIGN_OR_RETURN(config.embedding_length, reader.Int("embedding_length", 1, 1 << 20));
  TAHMIN_ASSIGN_OR_RETURN(config.feed_forward_length,
                          reader.Int("feed_forward_length", 1, 1 << 22));
  TAHMIN_ASSIGN_OR_RETURN(config.trained_context,
                          reader.Int("context_length", 1, std::numeric_limits<int32_t>::max()));
  if (!reader.Has("attention.layer_norm_rms_epsilon")) {
    return absl::InvalidArgumentError(
        fmt::format("missing metadata key {}", reader.Key("attention.layer_norm_rms_epsilon")));
  }
  TAHMIN_ASSIGN_OR_RETURN(config.rms_epsilon,
                          reader.PositiveOr("attention.layer_norm_rms_epsilon", 0.0f, true));
  TAHMIN_RETURN_IF_ERROR(ReadHeads(reader, config));
  TAHMIN_RETURN_IF_ERROR(ReadRope(file, reader, config));
  TAHMIN_RETURN_IF_ERROR(ReadSlidingWindow(reader, *traits, config));
  TAHMIN_RETURN_IF_ERROR(ReadVocabulary(file, config));
  return config;
}

}  // namespace tahmin
