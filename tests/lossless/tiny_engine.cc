#include "tests/lossless/tiny_engine.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <utility>

#include <unistd.h>

#include <fmt/format.h>

namespace tahmin {
namespace {

std::string NameOf(const TinyModelOptions& options) {
  return fmt::format("{}-l{}-e{}-w{}-v{}-s{}-x{}-t{}-c{}-w{}.gguf", options.architecture,
                     options.num_layers, options.embedding_length,
                     static_cast<int>(options.weight_type), options.vocab_size, options.seed,
                     options.logit_scale, options.tied_embedding ? 1 : 0, options.context_length,
                     options.sliding_window);
}

// A folder of this process, removed when it ends.
class Folder {
 public:
  Folder() : path_(fmt::format("{}tahmin-tiny-{}", testing::TempDir(), getpid())) {
    std::system(fmt::format("mkdir -p '{}'", path_).c_str());
  }
  ~Folder() { std::system(fmt::format("rm -rf '{}'", path_).c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

std::string TinyModelPath(const TinyModelOptions& options) {
  static const Folder folder;
  static std::vector<std::string> written;
  const std::string path = folder.path() + "/" + NameOf(options);
  if (std::find(written.begin(), written.end(), path) == written.end()) {
    WriteTinyModel(options, path);
    written.push_back(path);
  }
  return path;
}

TinyModelOptions TinyTarget() { return {}; }

TinyModelOptions CloseDraft() {
  TinyModelOptions options = TinyTarget();
  options.weight_type = TensorType::kQ4_0;
  return options;
}

TinyModelOptions StrangeDraft() {
  TinyModelOptions options = TinyTarget();
  options.num_layers = 1;
  options.seed = 99;
  return options;
}

std::unique_ptr<Engine> MakeTinyEngine(const TinyEngineOptions& options) {
  EngineOptions engine_options;
  engine_options.model_path = TinyModelPath(options.target);
  if (options.draft == "same") engine_options.draft_model_path = engine_options.model_path;
  if (options.draft == "close") engine_options.draft_model_path = TinyModelPath(CloseDraft());
  if (options.draft == "strange") engine_options.draft_model_path = TinyModelPath(StrangeDraft());
  engine_options.num_threads = options.threads;
  engine_options.context_tokens = options.context_tokens;
  engine_options.prefill_chunk = options.prefill_chunk;
  engine_options.kv_type = options.kv_type;
  engine_options.draft_kv_type = options.draft_kv_type;
  engine_options.draft_context_tokens = options.draft_context_tokens;
  engine_options.draft_repack = options.draft_repack;
  engine_options.draft_head = options.draft_head;
  engine_options.draft_head_tokens = options.draft_head_tokens;
  engine_options.suffix_store_bytes = options.suffix_store_bytes;
  auto engine = Engine::Create(engine_options);
  if (!engine.ok()) {
    std::fprintf(stderr, "%s\n", engine.status().ToString().c_str());
    std::abort();
  }
  return std::move(engine).value();
}

std::vector<int32_t> TinyPrompt(int32_t num_tokens, uint32_t salt) {
  std::vector<int32_t> tokens;
  uint32_t state = 12345 + 7919 * salt;
  for (int32_t i = 0; i < num_tokens; ++i) {
    state = state * 1664525u + 1013904223u;
    // Every second stretch of four repeats the stretch before it.
    const bool repeats = i >= 4 && (i / 4) % 2 == 1;
    tokens.push_back(repeats
                         ? tokens[i - 4]
                         : TinyVocabulary::kFirstByte + static_cast<int32_t>((state >> 16) % 256));
  }
  return tokens;
}

GenerationRequest TinyRequest(std::vector<int32_t> prompt) {
  GenerationRequest request;
  request.prompt_tokens = std::move(prompt);
  request.options.sampling.temperature = 0;
  request.options.max_tokens = 32;
  return request;
}

GenerationRequest WithDrafter(GenerationRequest request, const std::string& drafter,
                              int32_t draft_max) {
  request.draft.drafter = drafter;
  request.draft.draft_max = draft_max;
  return request;
}

GenerationRequest WithAdaptive(GenerationRequest request, const std::string& drafter) {
  request.draft.is_adaptive = true;
  return WithDrafter(std::move(request), drafter, 24);
}

GenerationRequest WithReplay(GenerationRequest request, const std::vector<int32_t>& output,
                             int32_t draft_max) {
  request.script_tokens = request.prompt_tokens;
  request.script_tokens.insert(request.script_tokens.end(), output.begin(), output.end());
  return WithDrafter(std::move(request), "replay", draft_max);
}

GenerationRequest WithSeed(GenerationRequest request, uint64_t seed) {
  request.options.sampling.temperature = 0.8f;
  request.options.sampling.seed = seed;
  return request;
}

GenerationRequest OnlyLetters(GenerationRequest request) {
  for (int32_t token = 0; token < TinyTarget().vocab_size; ++token) {
    const int32_t byte = token - TinyVocabulary::kFirstByte;
    const bool is_letter = (byte >= 'a' && byte <= 'z') || byte == ' ';
    if (is_letter) continue;
    request.options.sampling.logit_bias.emplace_back(token,
                                                     -std::numeric_limits<float>::infinity());
  }
  return request;
}

GenerationResult Generate(Engine& engine, const GenerationRequest& request) {
  auto result = engine.Generate(request);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  return std::move(result).value();
}

void ExpectSameOutput(const GenerationResult& plain, const GenerationResult& other) {
  EXPECT_EQ(plain.tokens, other.tokens);
  EXPECT_EQ(plain.text, other.text);
  EXPECT_EQ(plain.finish_reason, other.finish_reason);
  EXPECT_EQ(plain.stats.generated_tokens, other.stats.generated_tokens);
  ExpectSoundStats(other);
}

void ExpectSoundStats(const GenerationResult& result) {
  const GenerationStats& stats = result.stats;
  if (stats.generated_tokens == 0) return;
  EXPECT_EQ(stats.generated_tokens - 1, stats.accepted + stats.steps - stats.cut);
  EXPECT_LE(stats.accepted, stats.tested);
  EXPECT_LE(stats.tested, stats.drafted);
  EXPECT_GE(stats.AcceptanceRate(), 0.0);
  EXPECT_LE(stats.AcceptanceRate(), 1.0);
  int64_t tested = 0, accepted = 0;
  for (int64_t count : stats.tested_by_depth) tested += count;
  for (int64_t count : stats.accepted_by_depth) accepted += count;
  EXPECT_EQ(tested, stats.tested);
  EXPECT_EQ(accepted, stats.accepted);
  EXPECT_EQ(stats.tested_by_depth.size(), stats.accepted_by_depth.size());
  for (double rate : stats.AcceptanceByDepth()) EXPECT_TRUE(rate >= 0 && rate <= 1) << rate;
}

DraftTree Chain(const std::vector<int32_t>& tokens) {
  DraftTree tree;
  for (size_t i = 0; i < tokens.size(); ++i) {
    tree.nodes.push_back({.token = tokens[i], .parent = static_cast<int32_t>(i) - 1});
  }
  return tree;
}

DraftTree Bush(const std::vector<int32_t>& path, int32_t width) {
  DraftTree tree;
  const int32_t good_branch =
      width - 1;  // the last one: its nodes lie far from where they must end up
  std::vector<int32_t> parents(width, kRoot);
  for (size_t level = 0; level < path.size(); ++level) {
    for (int32_t branch = 0; branch < width; ++branch) {
      // At the first level siblings must differ; deeper ones may carry what they like.
      const int32_t other = TinyVocabulary::kFirstByte + (path[level] + 1 + branch) % 256;
      const int32_t token = branch == good_branch ? path[level] : other;
      tree.nodes.push_back({.token = token, .parent = parents[branch]});
      parents[branch] = tree.size() - 1;
    }
  }
  return tree;
}

}  // namespace tahmin
