// Damaged model files through everything that a user of one runs: the memory plan, the engine, the
// tokenizer and a few tokens of text. Each ends in an error with a reason or in a model that
// writes; never in a crash, a hang, or memory out of proportion to the file. Run with the sanitizer
// presets too.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/philox.h"
#include "base/shadow_memory.h"
#include "gguf/gguf_file.h"
#include "model/model.h"
#include "tahmin/engine.h"
#include "tests/data/tiny_model.h"
#include "tokenizer/tokenizer.h"

namespace tahmin {
namespace {

constexpr unsigned kMostSecondsPerFile = 60;  // a file takes milliseconds
constexpr int64_t kMostMemoryGrowthKilobytes = 1 << 20;

// What the watchdog says when it ends the program.
char current_case[200];

extern "C" void EndHungProgram(int) {
  (void)!write(STDERR_FILENO, current_case, strlen(current_case));
  _exit(1);
}

struct Range {
  size_t begin = 0;
  size_t size = 0;
};

// A small model, and where in its bytes damage tells most.
struct SmallModel {
  explicit SmallModel(const TinyModelOptions& options) : bytes(TinyModelBytes(options)) {
    const auto file = std::move(GgufFile::Parse(bytes, "small")).value();
    for (const GgufEntry& entry : file->entries()) {
      const auto begin = static_cast<size_t>(entry.bytes.data() - bytes.data());
      const auto* key = reinterpret_cast<const uint8_t*>(entry.key.data());
      keys.push_back({static_cast<size_t>(key - bytes.data()), entry.key.size()});
      metadata_end = std::max(metadata_end, begin + entry.bytes.size());
      // Types and counts stand before a value.
      if (entry.type != GgufValueType::kArray)
        values.push_back({begin - 8, entry.bytes.size() + 8});
      if (entry.type == GgufValueType::kArray) values.push_back({begin - 16, 16});
    }
    data_begin = bytes.size();
    for (const GgufTensor& tensor : file->tensors()) {
      const auto begin = static_cast<size_t>(tensor.bytes.data() - bytes.data());
      data_begin = std::min(data_begin, begin);
      data_end = std::max(data_end, begin + tensor.bytes.size());
    }
  }

  std::vector<uint8_t> bytes;
  std::vector<Range> keys;    // texts of the metadata keys
  std::vector<Range> values;  // scalars with their types, headers of arrays
  size_t metadata_end = 0;    // the tensor index follows, then
  size_t data_begin = 0;      // the weights, up to
  size_t data_end = 0;
};

TinyModelOptions TiniestModel(const std::string& architecture, TensorType weight_type) {
  TinyModelOptions options;
  options.architecture = architecture;
  options.num_layers = 1;
  options.embedding_length = 32;
  options.feed_forward_length = 32;
  options.num_heads = 2;
  options.num_kv_heads = 1;
  options.vocab_size = 300;
  options.context_length = 32;
  options.weight_type = weight_type;
  options.embedding_type = weight_type;
  return options;
}

const std::vector<SmallModel>& SmallModels() {
  static const std::vector<SmallModel> models = [] {
    TinyModelOptions scaled = TiniestModel("llama", TensorType::kQ8_0);
    scaled.rope_scaling = "yarn";
    scaled.rope_freqs = true;
    scaled.sliding_window = 8;
    TinyModelOptions untied = TiniestModel("qwen2", TensorType::kQ4_1);
    untied.tied_embedding = false;
    std::vector<SmallModel> made;
    made.emplace_back(scaled);
    made.emplace_back(untied);
    made.emplace_back(TiniestModel("qwen3", TensorType::kF16));
    return made;
  }();
  return models;
}

enum class Ending { kRefused, kWroteNothing, kWroteText };

class HostileModel : public testing::Test {
 protected:
  void SetUp() override {
    path_ = fmt::format("{}tahmin-hostile-{}.gguf", testing::TempDir(), getpid());
    (void)SmallModels();
    signal(SIGALRM, EndHungProgram);
    getrusage(RUSAGE_SELF, &usage_before_);
    getrlimit(RLIMIT_AS, &memory_before_);
#ifndef TAHMIN_MAPS_SHADOW_MEMORY
    // What is reserved and never touched counts too, where no shadow memory is mapped.
    const rlimit limit = {rlim_t{4} << 30, memory_before_.rlim_max};
    setrlimit(RLIMIT_AS, &limit);
#endif
  }
  void TearDown() override {
    alarm(0);
    signal(SIGALRM, SIG_DFL);
    setrlimit(RLIMIT_AS, &memory_before_);
    std::remove(path_.c_str());
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    EXPECT_LT(usage.ru_maxrss - usage_before_.ru_maxrss, kMostMemoryGrowthKilobytes);
  }

  // `name` says which damage it is, for whoever has to repeat it.
  absl::Status Try(const std::vector<uint8_t>& bytes, const std::string& name, bool trained_context,
                   Ending* ending) {
    *fmt::format_to_n(current_case, sizeof(current_case) - 2, "hangs: {}\n", name).out = '\0';
    alarm(kMostSecondsPerFile);
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    *ending = Ending::kRefused;
    const absl::Status status = Run(trained_context, ending);
    EXPECT_TRUE(status.ok() || !status.message().empty()) << name;
    return status;
  }

  std::string path_;

 private:
  absl::Status Run(bool trained_context, Ending* ending) {
    EngineOptions options;
    options.model_path = path_;
    options.num_threads = 1;
    options.prefill_chunk = 8;
    options.context_tokens = trained_context ? 0 : 32;
    const auto plan = Engine::Plan(options);
    const auto engine = Engine::Create(options);
    if (!engine.ok()) return engine.status();
    // The plan may only refuse what the engine refuses.
    EXPECT_TRUE(plan.ok()) << plan.status();
    *ending = Ending::kWroteNothing;
    const Tokenizer& tokenizer = (*engine)->tokenizer();
    const auto prompt = tokenizer.Tokenize("the in <|im_end|> the in 12", {});
    if (!prompt.ok()) return prompt.status();
    GenerationRequest request;
    request.prompt_tokens = *prompt;
    request.options.max_tokens = 4;
    request.options.ignore_end_tokens = true;
    request.options.sampling.temperature = 0.8f;
    request.options.sampling.seed = 1;
    request.options.num_logprobs = 2;
    request.draft.drafter = "lookup";
    const auto result = (*engine)->Generate(request);
    if (!result.ok()) return result.status();
    *ending = Ending::kWroteText;
    const int32_t vocab_size = (*engine)->model().config().vocab_size;
    for (const int32_t token : result->tokens) EXPECT_TRUE(token >= 0 && token < vocab_size);
    return absl::OkStatus();
  }

  rusage usage_before_ = {};
  rlimit memory_before_ = {};
};

TEST_F(HostileModel, TheFilesThemselvesWriteText) {
  for (const SmallModel& model : SmallModels()) {
    Ending ending;
    const absl::Status status = Try(model.bytes, "whole", true, &ending);
    EXPECT_EQ(ending, Ending::kWroteText) << status;
    EXPECT_LT(model.bytes.size(), 64u << 10);
  }
}

TEST_F(HostileModel, TruncatedAtAThousandPointsIsRefusedB45) {
  constexpr size_t kNumPoints = 1000;
  for (size_t i = 0; i < kNumPoints; ++i) {
    const SmallModel& model = SmallModels()[i % SmallModels().size()];
    const size_t length = model.data_end * i / kNumPoints;
    Ending ending;
    const absl::Status status = Try(
        {model.bytes.begin(), model.bytes.begin() + static_cast<int64_t>(length)},
        fmt::format("model {} cut to {} bytes", i % SmallModels().size(), length), false, &ending);
    ASSERT_EQ(ending, Ending::kRefused) << length;
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  }
}

// A place in one of the parts of the file, by turns: anywhere, metadata, values with their types
// and counts, tensor index. (The first 24 bytes, version and counts, go with the index.)
size_t DamagedPlace(const SmallModel& model, uint32_t part, uint32_t random_range,
                    uint32_t random_place) {
  const size_t header_bytes = 24;
  switch (part) {
    case 0:
      return random_place % model.bytes.size();
    case 1:
      return random_place % model.metadata_end;
    case 2: {
      const Range& range = model.values[random_range % model.values.size()];
      return range.begin + random_place % range.size;
    }
    default: {
      const size_t place = random_place % (model.data_begin - model.metadata_end + header_bytes);
      return place < header_bytes ? place : model.metadata_end + place - header_bytes;
    }
  }
}

TEST_F(HostileModel, TenThousandFlipsGiveAnErrorOrAModelB45) {
  constexpr uint32_t kNumRounds = 10000;
  std::array<int, 3> num_endings = {};
  for (uint32_t round = 0; round < kNumRounds; ++round) {
    const auto choices = Philox4x32(71, PhiloxCounter{{round, 0, 0, 0}});
    const SmallModel& model = SmallModels()[choices[0] % SmallModels().size()];
    std::vector<uint8_t> bytes = model.bytes;
    const uint32_t num_flips = 1 + choices[1] % 3;
    for (uint32_t flip = 0; flip < num_flips; ++flip) {
      const auto where = Philox4x32(72, PhiloxCounter{{round, flip, 0, 0}});
      bytes[DamagedPlace(model, choices[2] % 4, where[0], where[1])] ^=
          static_cast<uint8_t>(1 + where[2] % 255);
    }
    Ending ending;
    (void)Try(bytes, fmt::format("flips of round {}", round), choices[3] % 4 == 0, &ending);
    ASSERT_FALSE(HasFailure()) << "flips of round " << round;
    ++num_endings[static_cast<size_t>(ending)];
  }
  // All ways are really taken; weights that became NaN or infinite are found by the first pass.
  EXPECT_GT(num_endings[static_cast<size_t>(Ending::kRefused)], 2000);
  EXPECT_GT(num_endings[static_cast<size_t>(Ending::kWroteNothing)], 10);
  EXPECT_GT(num_endings[static_cast<size_t>(Ending::kWroteText)], 1500);
}

// "Metadata keys removed one at a time": a key with another first letter is not there any more.
TEST_F(HostileModel, EachMissingKeyIsRefusedByNameOrHasADefaultB45) {
  const std::vector<std::string> required = {
      "general.architecture", ".block_count",          ".context_length",
      ".embedding_length",    ".feed_forward_length",  ".attention.head_count",
      "tokenizer.ggml.model", "tokenizer.ggml.tokens", "tokenizer.ggml.merges",
  };
  for (const SmallModel& model : SmallModels()) {
    size_t num_refused = 0;
    for (const Range& key : model.keys) {
      std::vector<uint8_t> bytes = model.bytes;
      const std::string name(bytes.begin() + key.begin, bytes.begin() + key.begin + key.size);
      bytes[key.begin] = 'X';
      Ending ending;
      const absl::Status status = Try(bytes, "without " + name, true, &ending);
      const bool is_required = std::ranges::any_of(
          required, [&](const std::string& end) { return name.ends_with(end); });
      if (!is_required) continue;
      ++num_refused;
      EXPECT_EQ(ending, Ending::kRefused) << name;
      EXPECT_NE(std::string(status.message()).find(name), std::string::npos) << status;
    }
    EXPECT_EQ(num_refused, required.size());
  }
}

}  // namespace
}  // namespace tahmin
