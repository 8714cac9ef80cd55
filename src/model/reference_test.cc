// Tiny models against the independent float64 forward pass of tests/data/tiny_reference.py: rope
// styles and scalings, biases, per-head norms, grouped queries, sliding window, tied and untied
// heads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "model/model_fixture.h"

namespace tahmin {
namespace {

// With float32 weights and a float32 cache all that differs is float32 rounding: sums of up to 128
// products through two or three layers, logits up to about 20. That stays near 1e-5; a wrong rope,
// mask or norm moves logits by 1e-2 and more.
constexpr double kFloatTolerance = 5e-5;
// int8 activations: a share of about 1/250 of each block's peak, averaged over the columns.
constexpr double kInt8Tolerance = 0.25;

nlohmann::json Expected() { return nlohmann::json::parse(std::ifstream(TAHMIN_TINY_EXPECTED)); }

TensorType TypeNamed(const std::string& name) {
  for (uint32_t number = 0; number < 64; ++number) {
    const TensorTypeTraits* traits = FindTensorType(number);
    if (traits != nullptr && traits->name == name) return traits->type;
  }
  throw std::runtime_error("no tensor type " + name);
}

TinyModelOptions OptionsOf(const nlohmann::json& arguments) {
  TinyModelOptions options;
  for (const auto& [name, value] : arguments.items()) {
    if (name == "architecture")
      options.architecture = value;
    else if (name == "num-layers")
      options.num_layers = value;
    else if (name == "embedding-length")
      options.embedding_length = value;
    else if (name == "feed-forward-length")
      options.feed_forward_length = value;
    else if (name == "num-heads")
      options.num_heads = value;
    else if (name == "num-kv-heads")
      options.num_kv_heads = value;
    else if (name == "head-dim")
      options.head_dim = value;
    else if (name == "vocab-size")
      options.vocab_size = value;
    else if (name == "weight-type")
      options.weight_type = TypeNamed(value);
    else if (name == "embedding-type")
      options.embedding_type = TypeNamed(value);
    else if (name == "untied")
      options.tied_embedding = !value.get<bool>();
    else if (name == "qkv-bias")
      options.qkv_bias = value;
    else if (name == "sliding-window")
      options.sliding_window = value;
    else if (name == "rope-scaling")
      options.rope_scaling = value;
    else if (name == "rope-scale-factor")
      options.rope_scale_factor = value;
    else if (name == "rope-freqs")
      options.rope_freqs = value;
    else if (name == "seed")
      options.seed = value;
    else
      throw std::runtime_error("argument " + name + " is not known to this test");
  }
  return options;
}

class TinyReference : public ::testing::TestWithParam<size_t> {};

TEST_P(TinyReference, LogitsAndGreedyTokensAreEqual) {
  const nlohmann::json expected = Expected();
  const nlohmann::json& entry = expected.at("models").at(GetParam());
  SCOPED_TRACE(entry.at("name").get<std::string>());
  const TinyModelOptions options = OptionsOf(entry.at("arguments"));
  const bool is_float = options.weight_type == TensorType::kF32;
  const double tolerance = is_float ? kFloatTolerance : kInt8Tolerance;
  const TinyModel model(options);
  ModelDriver driver(*model, 2, KvType::kF32);
  const size_t vocab_size = model->config().vocab_size;
  const int32_t sequence = driver.AddSequence();
  const Tokens tokens = expected.at("tokens");
  std::vector<float> logits = driver.FeedChain(sequence, tokens, 48);
  const auto ids = expected.at("logit_ids").get<std::vector<int32_t>>();
  double worst = 0;
  for (const nlohmann::json& position : entry.at("positions")) {
    const float* row = logits.data() + position.at("position").get<size_t>() * vocab_size;
    for (size_t i = 0; i < ids.size(); ++i) {
      const double difference = row[ids[i]] - position.at("logits")[i].get<double>();
      worst = std::max(worst, std::abs(difference));
    }
  }
  EXPECT_LE(worst, tolerance);
  RecordProperty("worst_logit_difference", std::to_string(worst));

  if (entry.at("greedy_margin").get<double>() < 2 * tolerance) return;
  Tokens greedy;
  while (greedy.size() < entry.at("greedy").size()) {
    const auto last = std::span(logits).last(vocab_size);
    greedy.push_back(static_cast<int32_t>(std::ranges::max_element(last) - last.begin()));
    logits = driver.FeedChain(sequence, std::span(greedy).last(1), 1);
  }
  EXPECT_EQ(greedy, entry.at("greedy").get<Tokens>());
}

std::string NameOf(const ::testing::TestParamInfo<size_t>& info) {
  const nlohmann::json expected = Expected();
  return expected.at("models").at(info.param).at("name").get<std::string>();
}

INSTANTIATE_TEST_SUITE_P(Models, TinyReference,
                         ::testing::Range<size_t>(0, Expected().at("models").size()), NameOf);

}  // namespace
}  // namespace tahmin
