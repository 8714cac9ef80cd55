#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "gguf/gguf_writer.h"
#include "model/model.h"
#include "tests/data/tiny_model.h"

namespace tahmin {
namespace {

using ::testing::HasSubstr;

// Metadata of a small valid model; `edit` adds keys or, by returning true for it, leaves one out.
class Metadata {
 public:
  explicit Metadata(std::string architecture = "llama") : architecture_(std::move(architecture)) {}
  Metadata& Without(std::string suffix) {
    left_out_.push_back(std::move(suffix));
    return *this;
  }
  Metadata& Set(std::string suffix, uint32_t value) {
    Without(suffix);
    edits_.push_back(
        [=, this](GgufWriter& w) { w.AddUint32(architecture_ + "." + suffix, value); });
    return *this;
  }
  Metadata& SetFloat(std::string suffix, float value) {
    Without(suffix);
    edits_.push_back(
        [=, this](GgufWriter& w) { w.AddFloat32(architecture_ + "." + suffix, value); });
    return *this;
  }
  Metadata& SetText(std::string suffix, std::string value) {
    Without(suffix);
    edits_.push_back(
        [=, this](GgufWriter& w) { w.AddString(architecture_ + "." + suffix, value); });
    return *this;
  }
  Metadata& Edit(std::function<void(GgufWriter&)> edit) {
    edits_.push_back(std::move(edit));
    return *this;
  }

  absl::StatusOr<ModelConfig> Read() const {
    GgufWriter writer;
    writer.AddString("general.architecture", architecture_);
    const std::pair<std::string, uint32_t> numbers[] = {
        {"block_count", 2},           {"context_length", 512},     {"embedding_length", 64},
        {"feed_forward_length", 128}, {"attention.head_count", 4}, {"attention.head_count_kv", 2},
    };
    for (const auto& [suffix, value] : numbers) {
      if (!IsLeftOut(suffix)) writer.AddUint32(architecture_ + "." + suffix, value);
    }
    if (!IsLeftOut("attention.layer_norm_rms_epsilon")) {
      writer.AddFloat32(architecture_ + ".attention.layer_norm_rms_epsilon", 1e-6f);
    }
    for (const auto& edit : edits_) edit(writer);
    const std::vector<uint8_t> zeros(64 * 8 * sizeof(float));
    EXPECT_TRUE(writer.AddTensor("token_embd.weight", TensorType::kF32, {64, 8}, zeros).ok());
    const std::vector<uint8_t> bytes = writer.ToBytes();
    absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Parse(bytes, "metadata");
    if (!file.ok()) return file.status();
    return ReadModelConfig(**file);
  }
  // The message of the error that must come.
  std::string Refusal(absl::StatusCode code) const {
    const absl::StatusOr<ModelConfig> config = Read();
    EXPECT_EQ(config.status().code(), code) << config.status().ToString();
    return std::string(config.status().message());
  }

 private:
  bool IsLeftOut(const std::string& suffix) const {
    return std::find(left_out_.begin(), left_out_.end(), suffix) != left_out_.end();
  }
  std::string architecture_;
  std::vector<std::string> left_out_;
  std::vector<std::function<void(GgufWriter&)>> edits_;
};

constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(ModelConfig, ReadsDefaults) {
  const absl::StatusOr<ModelConfig> config = Metadata().Read();
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->architecture, Architecture::kLlama);
  EXPECT_EQ(config->num_layers, 2);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->rotary_dimensions, 16);
  EXPECT_EQ(config->vocab_size, 8);
  EXPECT_EQ(config->trained_context, 512);
  EXPECT_FLOAT_EQ(config->rms_epsilon, 1e-6f);
  EXPECT_EQ(config->rope_style, kernels::RopeStyle::kInterleaved);
  EXPECT_EQ(config->rope_scaling, RopeScaling::kNone);
  EXPECT_EQ(config->sliding_window, 0);
}

TEST(ModelConfig, KnowsTheArchitectures) {
  const absl::StatusOr<ModelConfig> qwen2 = Metadata("qwen2").Read();
  ASSERT_TRUE(qwen2.ok());
  EXPECT_EQ(qwen2->rope_style, kernels::RopeStyle::kNeox);
  EXPECT_FALSE(qwen2->has_qk_norm);
  const absl::StatusOr<ModelConfig> qwen3 =
      Metadata("qwen3").Set("attention.key_length", 32).Set("attention.value_length", 32).Read();
  ASSERT_TRUE(qwen3.ok());
  EXPECT_TRUE(qwen3->has_qk_norm);
  EXPECT_EQ(qwen3->head_dim, 32);
  EXPECT_EQ(qwen3->query_width(), 128);
}

TEST(ModelConfig, RefusesAnUnknownArchitectureByName) {
  const std::string message = Metadata("gemma3").Refusal(kUnimplemented);
  EXPECT_THAT(message, HasSubstr("gemma3"));
  EXPECT_THAT(message, HasSubstr("llama, qwen2, qwen3"));
}

TEST(ModelConfig, NamesAMissingKey) {
  for (const char* key :
       {"block_count", "context_length", "embedding_length", "feed_forward_length",
        "attention.head_count", "attention.layer_norm_rms_epsilon"}) {
    EXPECT_THAT(Metadata().Without(key).Refusal(kInvalid), HasSubstr(key));
  }
}

TEST(ModelConfig, NamesAnImpossibleValue) {
  EXPECT_THAT(Metadata().Set("block_count", 0).Refusal(kInvalid), HasSubstr("block_count"));
  EXPECT_THAT(Metadata().Set("block_count", 4000000000u).Refusal(kInvalid),
              HasSubstr("block_count"));
  EXPECT_THAT(Metadata().Set("attention.head_count", 5).Refusal(kInvalid), HasSubstr("head_count"));
  EXPECT_THAT(Metadata().Set("attention.head_count_kv", 3).Refusal(kInvalid),
              HasSubstr("head_count_kv"));
  EXPECT_THAT(Metadata().Set("rope.dimension_count", 18).Refusal(kInvalid),
              HasSubstr("rope.dimension_count"));
  EXPECT_THAT(Metadata().Set("rope.dimension_count", 7).Refusal(kInvalid),
              HasSubstr("rope.dimension_count"));
  EXPECT_THAT(Metadata().SetFloat("rope.freq_base", 0.0f).Refusal(kInvalid),
              HasSubstr("rope.freq_base"));
  EXPECT_THAT(Metadata().SetFloat("rope.freq_base", NAN).Refusal(kInvalid),
              HasSubstr("rope.freq_base"));
  EXPECT_THAT(Metadata().SetText("block_count", "two").Refusal(kInvalid), HasSubstr("block_count"));
}

TEST(ModelConfig, RefusesUnsupportedFeaturesByName) {
  for (const char* key : {"expert_count", "expert_used_count", "final_logit_softcapping",
                          "attn_logit_softcapping", "attention.max_alibi_bias",
                          "attention.clamp_kqv", "attention.scale", "nextn_predict_layers"}) {
    EXPECT_THAT(Metadata().Set(key, 8).Refusal(kUnimplemented), HasSubstr(key));
    EXPECT_TRUE(Metadata().Set(key, 0).Read().ok()) << key;
  }
  for (const char* key : {"logit_scale", "residual_scale", "embedding_scale"}) {
    EXPECT_THAT(Metadata().SetFloat(key, 0.5f).Refusal(kUnimplemented), HasSubstr(key));
    EXPECT_TRUE(Metadata().SetFloat(key, 1.0f).Read().ok()) << key;
  }
  EXPECT_THAT(Metadata().Set("attention.value_length", 32).Refusal(kUnimplemented),
              HasSubstr("attention.value_length"));
  EXPECT_THAT(Metadata()
                  .Edit([](GgufWriter& writer) { writer.AddBool("llama.attention.causal", false); })
                  .Refusal(kUnimplemented),
              HasSubstr("attention.causal"));
}

TEST(ModelConfig, RefusesAKeyThatItDoesNotKnow) {
  EXPECT_THAT(Metadata().SetFloat("attention.warp_factor", 9.0f).Refusal(kUnimplemented),
              HasSubstr("llama.attention.warp_factor"));
  // Keys of other prefixes are none of the architecture's business.
  EXPECT_TRUE(Metadata()
                  .Edit([](GgufWriter& writer) { writer.AddString("general.license", "mit"); })
                  .Read()
                  .ok());
}

TEST(ModelConfig, RefusesPartsAndAdapters) {
  EXPECT_THAT(Metadata()
                  .Edit([](GgufWriter& writer) { writer.AddUint32("split.count", 3); })
                  .Refusal(kUnimplemented),
              HasSubstr("split.count"));
  EXPECT_THAT(Metadata()
                  .Edit([](GgufWriter& writer) { writer.AddString("general.type", "adapter"); })
                  .Refusal(kUnimplemented),
              HasSubstr("adapter"));
}

TEST(ModelConfig, ReadsRopeScaling) {
  absl::StatusOr<ModelConfig> config = Metadata()
                                           .SetText("rope.scaling.type", "linear")
                                           .SetFloat("rope.scaling.factor", 4.0f)
                                           .Read();
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->rope_scaling, RopeScaling::kLinear);
  EXPECT_EQ(config->rope_scale_factor, 4.0f);
  config = Metadata().SetFloat("rope.scale_linear", 2.0f).Read();
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->rope_scaling, RopeScaling::kLinear);
  EXPECT_EQ(config->rope_scale_factor, 2.0f);
  config =
      Metadata().SetText("rope.scaling.type", "none").SetFloat("rope.scaling.factor", 4.0f).Read();
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->rope_scaling, RopeScaling::kNone);
  EXPECT_EQ(config->rope_scale_factor, 1.0f);
}

TEST(ModelConfig, ReadsYarn) {
  const absl::StatusOr<ModelConfig> config = Metadata()
                                                 .SetText("rope.scaling.type", "yarn")
                                                 .SetFloat("rope.scaling.factor", 4.0f)
                                                 .SetFloat("rope.scaling.attn_factor", 2.0f)
                                                 .Set("rope.scaling.original_context_length", 128)
                                                 .SetFloat("rope.scaling.yarn_beta_fast", 16.0f)
                                                 .Read();
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->rope_scaling, RopeScaling::kYarn);
  EXPECT_EQ(config->rope_original_context, 128);
  EXPECT_EQ(config->yarn_beta_fast, 16.0f);
  EXPECT_EQ(config->yarn_beta_slow, 1.0f);
  EXPECT_NEAR(config->yarn_attention_factor, 2.0 * (1.0 + 0.1 * std::log(4.0)), 1e-6);
}

TEST(ModelConfig, RefusesOtherRopeScalingsByName) {
  for (const char* name : {"longrope", "dynamic", "llama3"}) {
    EXPECT_THAT(Metadata().SetText("rope.scaling.type", name).Refusal(kUnimplemented),
                HasSubstr(name));
  }
  EXPECT_THAT(Metadata().SetFloat("rope.scaling.yarn_log_multiplier", 0.1f).Refusal(kUnimplemented),
              HasSubstr("yarn_log_multiplier"));
}

TEST(ModelConfig, HonoursTheSlidingWindowOfLlamaOnly) {
  const absl::StatusOr<ModelConfig> config = Metadata().Set("attention.sliding_window", 64).Read();
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->sliding_window, 64);
  EXPECT_THAT(Metadata("qwen2").Set("attention.sliding_window", 64).Refusal(kUnimplemented),
              HasSubstr("attention.sliding_window"));
  EXPECT_THAT(Metadata().Set("attention.sliding_window_pattern", 2).Refusal(kUnimplemented),
              HasSubstr("sliding_window_pattern"));
}

TEST(ModelConfig, AcceptsEqualPerLayerArraysOnly) {
  auto with_array = [](std::vector<int32_t> values) {
    return Metadata().Without("attention.head_count_kv").Edit([values](GgufWriter& w) {
      w.AddInt32Array("llama.attention.head_count_kv", values);
    });
  };
  const absl::StatusOr<ModelConfig> config = with_array({2, 2}).Read();
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->num_kv_heads, 2);
  EXPECT_THAT(with_array({2, 4}).Refusal(kUnimplemented), HasSubstr("head_count_kv"));
}

}  // namespace
}  // namespace tahmin
