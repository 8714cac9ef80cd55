// Which tensors a model must have and may not have, and what loading reports.
#include "model/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/shadow_memory.h"
#include "model/model_fixture.h"

namespace tahmin {
namespace {

using ::testing::HasSubstr;

// Replaces the only occurrence of a tensor's name by one of the same length.
void Rename(std::vector<uint8_t>& bytes, std::string_view from, std::string_view to) {
  ASSERT_EQ(from.size(), to.size());
  const auto found = std::search(bytes.begin(), bytes.end(), from.begin(), from.end());
  ASSERT_NE(found, bytes.end()) << from;
  std::copy(to.begin(), to.end(), found);
}

absl::Status LoadStatus(const std::vector<uint8_t>& bytes) {
  ThreadPool pool(1);
  absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Parse(bytes, "tiny");
  if (!file.ok()) return file.status();
  const absl::StatusOr<size_t> planned = Model::PlannedWeightBytes(**file);
  const absl::Status status = Model::Load(*std::move(file), {}, pool).status();
  // The plan refuses what loading refuses.
  EXPECT_EQ(planned.status(), status);
  return status;
}

TEST(ModelWeights, AnUnusedTensorIsRefusedByName) {
  TinyModelOptions options;
  options.tied_embedding = false;
  std::vector<uint8_t> bytes = TinyModelBytes(options);
  Rename(bytes, "output.weight", "outpux.weight");
  const absl::Status status = LoadStatus(bytes);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("outpux.weight"));
}

TEST(ModelWeights, AnUnknownBiasIsRefusedByName) {
  TinyModelOptions options;
  options.qkv_bias = true;
  std::vector<uint8_t> bytes = TinyModelBytes(options);
  EXPECT_TRUE(LoadStatus(bytes).ok());
  Rename(bytes, "blk.0.attn_q.bias", "blk.0.attn_x.bias");
  EXPECT_THAT(std::string(LoadStatus(bytes).message()), HasSubstr("blk.0.attn_x.bias"));
}

TEST(ModelWeights, AMissingTensorIsNamed) {
  std::vector<uint8_t> bytes = TinyModelBytes({});
  Rename(bytes, "blk.1.ffn_norm.weight", "blk.1.ffn_nxxm.weight");
  const absl::Status status = LoadStatus(bytes);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("missing tensor blk.1.ffn_norm.weight"));
  TinyModelOptions qwen2;
  qwen2.architecture = "qwen2";
  bytes = TinyModelBytes(qwen2);
  Rename(bytes, "blk.1.attn_k.bias", "blk.1.attn_x.bias");
  EXPECT_THAT(std::string(LoadStatus(bytes).message()),
              HasSubstr("missing tensor blk.1.attn_k.bias"));
}

TEST(ModelWeights, AWrongShapeIsToldWithBothShapes) {
  std::vector<uint8_t> bytes = TinyModelBytes({});
  // 4 key/value heads instead of 2: the key matrix is half as large as needed.
  const std::string_view key = "llama.attention.head_count_kv";
  const auto found = std::search(bytes.begin(), bytes.end(), key.begin(), key.end());
  ASSERT_NE(found, bytes.end());
  *(found + key.size() + sizeof(uint32_t)) = 4;  // behind the value type
  const absl::Status status = LoadStatus(bytes);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr("blk.0.attn_k.weight"));
  EXPECT_THAT(message, HasSubstr("[64, 32]"));
  EXPECT_THAT(message, HasSubstr("[64, 64]"));
}

TEST(ModelWeights, FiguresCountTheMatricesOfOnePass) {
  TinyModelOptions options;
  options.tied_embedding = false;
  const std::vector<uint8_t> bytes = TinyModelBytes(options);
  ThreadPool pool(2);
  std::shared_ptr<const GgufFile> file = *GgufFile::Parse(bytes, "tiny");
  uint64_t last_done = 0, total = 0;
  const ModelLoadOptions load = {.progress = [&](uint64_t done_bytes, uint64_t total_bytes) {
    EXPECT_GT(done_bytes, last_done);
    last_done = done_bytes;
    total = total_bytes;
  }};
  const std::unique_ptr<Model> model = *Model::Load(file, load, pool);
  const WeightFigures figures = model->weight_figures();
  // q, k, v, output, gate, up, down of two layers, and the head; the embedding table is not read in
  // full.
  const uint64_t per_layer = 64 * (64 + 32 + 32 + 64 + 3 * 128);
  EXPECT_EQ(figures.macs_per_row, 2 * per_layer + 64 * 320);
  EXPECT_EQ(figures.gguf_bytes, figures.macs_per_row / 32 * 34);
  EXPECT_EQ(last_done, figures.gguf_bytes);
  EXPECT_EQ(total, figures.gguf_bytes);
  const size_t planned = *Model::PlannedWeightBytes(*file);
  EXPECT_GE(planned, figures.packed_bytes);
  EXPECT_LE(planned, figures.packed_bytes + 2 * 64 * (2 * 2 + 1) * sizeof(float));
  EXPECT_THAT(model->DescribeActivationFormats(), HasSubstr("block 32, no residual"));
}

// A figure of /proc/self/status.
int64_t StatusBytes(std::string_view name) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with(name)) return std::stoll(line.substr(name.size() + 1)) * 1024;
  }
  ADD_FAILURE() << "no " << name;
  return 0;
}

// Loads a model whose output head is most of it from a file that is written for this.
class LargeHeadModel : public testing::Test {
 protected:
  LargeHeadModel() {
    TinyModelOptions options;
    options.vocab_size = 48000;
    options.embedding_type = TensorType::kF32;
    options.embedding_length = 128;
    options.head_dim = 32;
    options.num_layers = 1;
    path_ = testing::TempDir() + "/large_head_" + std::to_string(getpid()) + ".gguf";
    WriteTinyModel(options, path_);
    file_ = *GgufFile::Open(path_);
  }
  ~LargeHeadModel() override { std::filesystem::remove(path_); }

  std::string path_;
  std::shared_ptr<const GgufFile> file_;
  ThreadPool pool_{2};
};

// A slice is 2 MB of the file, and a huge page of what is packed may be touched too early.
constexpr int64_t kMost = 4 << 20;

TEST_F(LargeHeadModel, IsNeverInMemoryTwiceWhileItIsPacked) {
#ifdef TAHMIN_MAPS_SHADOW_MEMORY
  GTEST_SKIP() << "the sanitizer's own memory counts as the program's";
#endif
  for (const DraftHead head : {DraftHead::kExact, DraftHead::kCoarse, DraftHead::kFrequent}) {
    const WeightApproximation approximation{.to_four_bits = head != DraftHead::kExact,
                                            .head = head};
    // Sets the peak back to what there is now.
    if (!(std::ofstream("/proc/self/clear_refs") << 5 << std::flush)) {
      GTEST_SKIP() << "this system does not set back its peak of memory";
    }
    const int64_t before = StatusBytes("VmHWM");
    const auto model = Model::Load(file_, {.approximation = approximation}, pool_);
    ASSERT_TRUE(model.ok()) << model.status();
    const auto planned = static_cast<int64_t>(*Model::PlannedWeightBytes(*file_, approximation));
    EXPECT_LE(StatusBytes("VmHWM") - before, planned + kMost) << static_cast<int>(head);
  }
}

TEST_F(LargeHeadModel, TellsItsProgressWithinTheHead) {
  for (const DraftHead head : {DraftHead::kExact, DraftHead::kCoarse, DraftHead::kFrequent}) {
    uint64_t last_done = 0, total = 0, largest_step = 0;
    const ModelLoadOptions load{.progress =
                                    [&](uint64_t done_bytes, uint64_t total_bytes) {
                                      EXPECT_GT(done_bytes, last_done);
                                      largest_step = std::max(largest_step, done_bytes - last_done);
                                      last_done = done_bytes;
                                      total = total_bytes;
                                    },
                                .approximation = {.head = head}};
    ASSERT_TRUE(Model::Load(file_, load, pool_).ok());
    EXPECT_EQ(last_done, total);
    // The frequent head leaves rows out.
    if (head != DraftHead::kFrequent) {
      EXPECT_LE(largest_step, static_cast<uint64_t>(kMost));
    }
  }
}

TEST(ModelWeights, ScratchIsWhatThePlanSays) {
  const TinyModel model{TinyModelOptions{}};
  const size_t small = Model::ScratchBytes(model->config(), 8, 1, 2);
  EXPECT_LT(small, Model::ScratchBytes(model->config(), 64, 1, 2));
  EXPECT_EQ(Model::ScratchBytes(model->config(), 8, 9, 2) - small, 8 * 320 * sizeof(float));
}

// A hostile file may hold any bits: that gives garbage, never a crash.
TEST(ModelWeights, NanWeightsGiveNanLogits) {
  for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ5_1, TensorType::kF16}) {
    TinyModelOptions options;
    options.weight_type = type;
    std::vector<uint8_t> bytes = TinyModelBytes(options);
    absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Parse(bytes, "tiny");
    ASSERT_TRUE(file.ok());
    const std::span<const uint8_t> tensor = (*file)->FindTensor("blk.0.ffn_down.weight")->bytes;
    std::memset(bytes.data() + (tensor.data() - bytes.data()), 0xFF, tensor.size());
    ThreadPool pool(2);
    const std::unique_ptr<Model> model = *Model::Load(*std::move(file), {}, pool);
    ModelDriver driver(*model);
    const Tokens tokens = RandomTokens(9, 300, 5);
    const std::vector<float> logits = driver.FeedChain(driver.AddSequence(), tokens, 4);
    ASSERT_EQ(logits.size(), 9u * 320);
    EXPECT_TRUE(std::ranges::any_of(logits, [](float x) { return std::isnan(x); }));
  }
}

}  // namespace
}  // namespace tahmin
