#include "tests/data/tiny_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string_view>

#include "base/check.h"
#include "base/philox.h"
#include "gguf/dequantize.h"
#include "gguf/gguf_writer.h"
#include "tests/data/tiny_vocabulary.h"

namespace tahmin {
namespace {

constexpr int32_t kNumControlTokens = TinyVocabulary::kFirstByte;
constexpr int32_t kNumUsedTokens = kNumControlTokens + 256 + 36;
constexpr float kEmbeddingSpread = 0.5f;

// FNV-1a, so that each tensor has its own stream whatever the other tensors are.
uint64_t NameKey(std::string_view name, uint64_t seed) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  return hash ^ (seed * 0x9E3779B97F4A7C15u);
}

// Uniform in [-1, 1), a multiple of 2^-23: exact, so equal on every machine.
float UniformSigned(uint64_t key, uint32_t index) {
  const std::array<uint32_t, 4> words = Philox4x32(key, PhiloxCounter{{index / 4, 0, 0, 0}});
  const int32_t integer = static_cast<int32_t>(words[index % 4] >> 8) - (1 << 23);
  return std::ldexp(static_cast<float>(integer), -23);
}

class TinyModelBuilder {
 public:
  explicit TinyModelBuilder(const TinyModelOptions& options) : options_(options) {}

  GgufWriter& Build() {
    AddMetadata();
    AddTinyVocabulary(writer_, options_.architecture == "llama" ? "gpt-2" : "qwen2",
                      options_.vocab_size);
    AddEmbeddings();
    for (int32_t layer = 0; layer < options_.num_layers; ++layer) AddLayer(layer);
    return writer_;
  }

 private:
  std::string Key(const char* suffix) const { return options_.architecture + "." + suffix; }

  void AddMetadata() {
    const auto number = [](int32_t value) { return static_cast<uint32_t>(value); };
    writer_.AddString("general.architecture", options_.architecture);
    writer_.AddString("general.name", "tiny " + options_.architecture);
    writer_.AddUint32(Key("block_count"), number(options_.num_layers));
    writer_.AddUint32(Key("context_length"), number(options_.context_length));
    writer_.AddUint32(Key("embedding_length"), number(options_.embedding_length));
    writer_.AddUint32(Key("feed_forward_length"), number(options_.feed_forward_length));
    writer_.AddUint32(Key("attention.head_count"), number(options_.num_heads));
    writer_.AddUint32(Key("attention.head_count_kv"), number(options_.num_kv_heads));
    writer_.AddFloat32(Key("attention.layer_norm_rms_epsilon"), IsQwen() ? 1e-6f : 1e-5f);
    writer_.AddFloat32(Key("rope.freq_base"), IsQwen() ? 1000000.0f : 10000.0f);
    writer_.AddUint32(Key("vocab_size"), number(options_.vocab_size));
    const bool odd_head_dim = options_.head_dim * options_.num_heads != options_.embedding_length;
    if (odd_head_dim || options_.architecture == "qwen3") {
      writer_.AddUint32(Key("attention.key_length"), number(options_.head_dim));
      writer_.AddUint32(Key("attention.value_length"), number(options_.head_dim));
    }
    if (!IsQwen()) writer_.AddUint32(Key("rope.dimension_count"), number(options_.head_dim));
    if (options_.sliding_window > 0) {
      writer_.AddUint32(Key("attention.sliding_window"), number(options_.sliding_window));
    }
    if (options_.rope_scaling.empty()) return;
    TAHMIN_CHECK(options_.rope_scaling == "linear" || options_.rope_scaling == "yarn");
    writer_.AddString(Key("rope.scaling.type"), options_.rope_scaling);
    writer_.AddFloat32(Key("rope.scaling.factor"), options_.rope_scale_factor);
    if (options_.rope_scaling == "yarn") {
      const float original =
          static_cast<float>(options_.context_length) / options_.rope_scale_factor;
      writer_.AddUint32(Key("rope.scaling.original_context_length"),
                        static_cast<uint32_t>(original));
    }
  }

  bool IsQwen() const { return options_.architecture != "llama"; }

  // `value` maps (row, uniform in [-1, 1)) to the weight.
  void AddMatrix(const std::string& name, TensorType type, int64_t columns, int64_t rows,
                 const std::function<float(int64_t row, float uniform)>& value) {
    const TensorTypeTraits& traits = *FindTensorType(static_cast<uint32_t>(type));
    TAHMIN_CHECK(columns % traits.block_elements == 0);
    const uint64_t key = NameKey(name, options_.seed);
    std::vector<float> values(static_cast<size_t>(columns * rows));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] =
          value(static_cast<int64_t>(i) / columns, UniformSigned(key, static_cast<uint32_t>(i)));
    }
    std::vector<uint8_t> bytes(values.size() / static_cast<size_t>(traits.block_elements) *
                               traits.block_bytes);
    TAHMIN_CHECK(QuantizeRow(type, values, bytes).ok());
    std::vector<int64_t> dimensions = {columns};
    if (rows > 1) dimensions.push_back(rows);
    TAHMIN_CHECK(writer_.AddTensor(name, type, dimensions, bytes).ok());
  }

  // A matrix that maps inputs of unit variance to outputs of standard deviation `gain`. The
  // variance of a uniform draw is 1/3.
  void AddProjection(const std::string& name, int64_t columns, int64_t rows, float gain) {
    const float spread = gain * std::sqrt(3.0f / static_cast<float>(columns));
    AddMatrix(name, options_.weight_type, columns, rows,
              [spread](int64_t, float uniform) { return spread * uniform; });
  }

  void AddVector(const std::string& name, int64_t length, float centre, float spread) {
    AddMatrix(name, TensorType::kF32, length, 1,
              [=](int64_t, float uniform) { return centre + spread * uniform; });
  }

  void AddEmbeddings() {
    const int64_t width = options_.embedding_length;
    const float spread = kEmbeddingSpread * std::sqrt(3.0f);
    const auto token_row = [spread](int64_t row, float uniform) {
      const float share = row >= kNumUsedTokens ? 1.0f / 64 : row < kNumControlTokens ? 0.5f : 1.0f;
      return share * spread * uniform;
    };
    AddMatrix("token_embd.weight", options_.embedding_type, width, options_.vocab_size, token_row);
    // Signs at random: with a tied output matrix the likeliest next token would otherwise be the
    // token itself, for ever.
    const float norm =
        options_.logit_scale / 3.0f / (kEmbeddingSpread * std::sqrt(static_cast<float>(width)));
    AddMatrix("output_norm.weight", TensorType::kF32, width, 1, [norm](int64_t, float uniform) {
      return norm * (uniform < 0 ? uniform - 0.5f : uniform + 0.5f);
    });
    if (!options_.tied_embedding) {
      AddMatrix("output.weight", options_.weight_type, width, options_.vocab_size, token_row);
    }
    if (options_.rope_freqs) AddRopeFactors();
  }

  // Divisors of the rotary frequencies as llama3 scaling has them: 1 for the fast ones, growing to
  // the full factor for the slow ones.
  void AddRopeFactors() {
    const int64_t pairs = options_.head_dim / 2;
    std::vector<float> factors;
    for (int64_t i = 0; i < pairs; ++i) {
      const float share = static_cast<float>(2 * i) / static_cast<float>(pairs) - 0.5f;
      factors.push_back(1.0f + (options_.rope_scale_factor - 1.0f) * std::clamp(share, 0.0f, 1.0f));
    }
    std::vector<uint8_t> bytes(factors.size() * sizeof(float));
    TAHMIN_CHECK(QuantizeRow(TensorType::kF32, factors, bytes).ok());
    TAHMIN_CHECK(writer_.AddTensor("rope_freqs.weight", TensorType::kF32, {pairs}, bytes).ok());
  }

  void AddLayer(int32_t layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    const int64_t width = options_.embedding_length;
    const int64_t query_width = int64_t{options_.num_heads} * options_.head_dim;
    const int64_t key_width = int64_t{options_.num_kv_heads} * options_.head_dim;
    const int64_t hidden = options_.feed_forward_length;
    AddVector(prefix + "attn_norm.weight", width, 1.0f, 0.25f);
    // Scores with a standard deviation near two: attention then picks a few keys, not all alike.
    AddProjection(prefix + "attn_q.weight", width, query_width, 1.5f);
    AddProjection(prefix + "attn_k.weight", width, key_width, 1.5f);
    AddProjection(prefix + "attn_v.weight", width, key_width, 1.0f);
    AddProjection(prefix + "attn_output.weight", query_width, width, 1.5f);
    if (options_.qkv_bias || options_.architecture == "qwen2") {
      AddVector(prefix + "attn_q.bias", query_width, 0.0f, 0.5f);
      AddVector(prefix + "attn_k.bias", key_width, 0.0f, 0.5f);
      AddVector(prefix + "attn_v.bias", key_width, 0.0f, 0.5f);
    }
    if (options_.architecture == "qwen3") {
      AddVector(prefix + "attn_q_norm.weight", options_.head_dim, 1.5f, 0.5f);
      AddVector(prefix + "attn_k_norm.weight", options_.head_dim, 1.5f, 0.5f);
    }
    AddVector(prefix + "ffn_norm.weight", width, 1.0f, 0.25f);
    AddProjection(prefix + "ffn_gate.weight", width, hidden, 1.5f);
    AddProjection(prefix + "ffn_up.weight", width, hidden, 1.5f);
    AddProjection(prefix + "ffn_down.weight", hidden, width, 1.0f);
  }

  const TinyModelOptions& options_;
  GgufWriter writer_;
};

}  // namespace

std::vector<uint8_t> TinyModelBytes(const TinyModelOptions& options) {
  TinyModelBuilder builder(options);
  return builder.Build().ToBytes();
}

void WriteTinyModel(const TinyModelOptions& options, const std::string& path) {
  TinyModelBuilder builder(options);
  TAHMIN_CHECK(builder.Build().Write(path).ok());
}

}  // namespace tahmin
