// Real models against an independent fp32 forward pass on the dequantised weights: the mean KL
// divergence of the next-token distributions, and the greedy continuation where the reference is
// sure of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "gguf/gguf_file.h"
#include "kernels/isa.h"
#include "kv/kv_cache.h"
#include "model/model.h"
#include "step/token_batch.h"

namespace tahmin {
namespace {

struct GoldenModel {
  const char* test_name;
  const char* file_name;  // without extension: the model's and the reference's
  double max_mean_kl;
};

constexpr GoldenModel kGoldenModels[] = {
    {"SmolLm2_135M", "smollm2-135m-instruct-q4_1", 3.6e-3},
    {"QwenCoder_0_5B", "qwen2.5-coder-0.5b-instruct-q4_k_m", 1.5e-3},
    {"QwenCoder_1_5B", "qwen2.5-coder-1.5b-instruct-q4_k_m", 2e-3},
};

// A choice of the reference is sure when its best logit leads by this much: far above what int8
// activations move a logit by.
constexpr double kSureGap = 2.0;

std::filesystem::path ModelsFolder() {
  if (const char* folder = std::getenv("TAHMIN_MODELS")) return folder;
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home != nullptr ? home : "") / ".cache" / "tahmin";
}

double LogSumExp(std::span<const float> logits) {
  const double peak = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - peak);
  return peak + std::log(sum);
}

// KL(reference || ours) over the reference's top ids plus one bucket for all other tokens.
double KlOfPosition(std::span<const float> logits, const std::vector<int32_t>& top_ids,
                    const std::vector<double>& top_logprobs) {
  const double normaliser = LogSumExp(logits);
  double kl = 0, reference_rest = 1, our_rest = 1;
  for (size_t i = 0; i < top_ids.size(); ++i) {
    const double ours = logits[top_ids[i]] - normaliser;
    const double p = std::exp(top_logprobs[i]);
    kl += p * (top_logprobs[i] - ours);
    reference_rest -= p;
    our_rest -= std::exp(ours);
  }
  if (reference_rest > 1e-9)
    kl += reference_rest * std::log(reference_rest / std::max(our_rest, 1e-9));
  return kl;
}

class LogitsGolden : public ::testing::TestWithParam<GoldenModel> {
 protected:
  void SetUp() override {
    const std::string name = GetParam().file_name;
    const std::filesystem::path reference =
        std::filesystem::path(TAHMIN_GOLDEN_DIR) / ("logits-" + name + ".json");
    const std::filesystem::path model_path = ModelsFolder() / (name + ".gguf");
    if (!std::filesystem::exists(reference)) GTEST_SKIP() << "no reference " << reference;
    if (!std::filesystem::exists(model_path)) GTEST_SKIP() << "no model " << model_path;
    ASSERT_TRUE(kernels::SelectIsa().ok());  // TAHMIN_ISA counts here too
    golden_ = nlohmann::json::parse(std::ifstream(reference));
    absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Open(model_path.string());
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    absl::StatusOr<std::unique_ptr<Model>> model = Model::Load(*std::move(file), {}, pool_);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    model_ = *std::move(model);
    cache_ = std::make_unique<KvCache>(model_->MakeKvShape(KvType::kF16));
    scratch_ = *model_->CreateScratch(kMaxRows, kMaxRows, pool_);
    sequence_ = *cache_->AddSequence(2 * kMaxRows);
  }

  // Runs the tokens behind what is committed and commits them; logits of all of them.
  std::span<const float> Feed(const std::vector<int32_t>& tokens) {
    const int32_t count = static_cast<int32_t>(tokens.size());
    TokenBatch batch;
    batch.AppendChain(sequence_, tokens.data(), count, true);
    EXPECT_TRUE(cache_->Reserve(sequence_, count).ok());
    model_->Forward(batch, *cache_, *scratch_, pool_);
    std::vector<int32_t> path(count);
    for (int32_t i = 0; i < count; ++i) path[i] = i;
    cache_->Commit(sequence_, path);
    return scratch_->logits();
  }

  static constexpr int32_t kMaxRows = 128;
  ThreadPool pool_{2};
  nlohmann::json golden_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<ForwardScratch> scratch_;
  int32_t sequence_ = 0;
};

TEST_P(LogitsGolden, MeanKlIsWithinTheBound) {
  double sum_kl = 0, worst_kl = 0;
  int num_positions = 0;
  int64_t base_rows = 0, residual_rows = 0;
  for (const nlohmann::json& prompt : golden_.at("prompts")) {
    cache_->Truncate(sequence_, 0);
    const auto ids = prompt.at("ids").get<std::vector<int32_t>>();
    const std::span<const float> logits = Feed(ids);
    base_rows += scratch_->base_rows();
    residual_rows += scratch_->residual_rows();
    const size_t vocab_size = model_->config().vocab_size;
    for (size_t i = 0; i < ids.size(); ++i) {
      const double kl = KlOfPosition(logits.subspan(i * vocab_size, vocab_size),
                                     prompt.at("top_ids")[i].get<std::vector<int32_t>>(),
                                     prompt.at("top_logprobs")[i].get<std::vector<double>>());
      sum_kl += kl;
      worst_kl = std::max(worst_kl, kl);
      ++num_positions;
    }
  }
  const double mean_kl = sum_kl / num_positions;
  const double extra_rows = static_cast<double>(residual_rows) / static_cast<double>(base_rows);
  std::printf("%s: mean KL %.2e (worst position %.2e), %.1f %% residual rows\n",
              GetParam().file_name, mean_kl, worst_kl, 100 * extra_rows);
  RecordProperty("mean_kl", std::to_string(mean_kl));
  RecordProperty("extra_rows_fraction", std::to_string(extra_rows));
  EXPECT_LE(mean_kl, GetParam().max_mean_kl);
  EXPECT_GT(num_positions, 100);
}

// Each reference token is fed, so that one unsure choice does not end the comparison.
TEST_P(LogitsGolden, GreedyChoicesEqualWhereTheReferenceIsSure) {
  int num_compared = 0;
  for (const nlohmann::json& prompt : golden_.at("prompts")) {
    if (!prompt.contains("greedy")) continue;
    cache_->Truncate(sequence_, 0);
    const auto ids = prompt.at("ids").get<std::vector<int32_t>>();
    const auto greedy = prompt.at("greedy").get<std::vector<int32_t>>();
    const auto gaps = prompt.at("greedy_gap").get<std::vector<double>>();
    std::vector<int32_t> next = ids;
    for (size_t i = 0; i < greedy.size(); ++i) {
      const size_t vocab_size = model_->config().vocab_size;
      const std::span<const float> last = Feed(next).last(vocab_size);
      const auto choice = static_cast<int32_t>(std::ranges::max_element(last) - last.begin());
      if (gaps[i] >= kSureGap) {
        EXPECT_EQ(choice, greedy[i]) << "token " << i << ", gap " << gaps[i];
        ++num_compared;
      }
      next = {greedy[i]};
    }
  }
  EXPECT_GT(num_compared, 10);
}

INSTANTIATE_TEST_SUITE_P(Models, LogitsGolden, ::testing::ValuesIn(kGoldenModels),
                         [](const auto& info) { return info.param.test_name; });

}  // namespace
}  // namespace tahmin
