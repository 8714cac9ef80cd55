// Engines on tiny random models, and requests to them, for the lossless tests.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "step/draft_tree.h"
#include "tahmin/engine.h"
#include "tests/data/tiny_model.h"

namespace tahmin {

// Path of the tiny model with these options, written to a temporary folder when first asked for.
std::string TinyModelPath(const TinyModelOptions& options);

// The target of most tests, a draft that mostly agrees with it (same weights, fewer bits) and one
// that has nothing to do with it.
TinyModelOptions TinyTarget();
TinyModelOptions CloseDraft();
TinyModelOptions StrangeDraft();

struct TinyEngineOptions {
  TinyModelOptions target = TinyTarget();
  std::string draft = "same";  // "same", "close", "strange" or ""
  int32_t threads = 1;
  int32_t context_tokens = 256;
  int32_t prefill_chunk = 512;
  KvType kv_type = KvType::kF16;
  KvType draft_kv_type = KvType::kF16;
  int32_t draft_context_tokens = 0;
  DraftRepack draft_repack = DraftRepack::kAuto;
  DraftHead draft_head = DraftHead::kAuto;
  int32_t draft_head_tokens = 0;
  int64_t suffix_store_bytes = 0;
};
// Aborts the test program when the engine cannot be made.
std::unique_ptr<Engine> MakeTinyEngine(const TinyEngineOptions& options = {});

// A prompt of ordinary ids, reproducible, with repetitions for lookup to find.
std::vector<int32_t> TinyPrompt(int32_t num_tokens, uint32_t salt = 0);

// Plain request: temperature 0, 32 tokens.
GenerationRequest TinyRequest(std::vector<int32_t> prompt);
GenerationRequest WithDrafter(GenerationRequest request, const std::string& drafter,
                              int32_t draft_max);
// As much of it as pays, 24 nodes at most.
GenerationRequest WithAdaptive(GenerationRequest request, const std::string& drafter);
// Replays `output` behind the request's prompt.
GenerationRequest WithReplay(GenerationRequest request, const std::vector<int32_t>& output,
                             int32_t draft_max);
// Fixed sampling seed at temperature 0.8 (default filters).
GenerationRequest WithSeed(GenerationRequest request, uint64_t seed);
// Only letters a to z and the space may be drawn, so that the text is plain ASCII.
GenerationRequest OnlyLetters(GenerationRequest request);

// Runs it, expecting success.
GenerationResult Generate(Engine& engine, const GenerationRequest& request);
// Ids, text and reason of end are the same; statistics are sound.
void ExpectSameOutput(const GenerationResult& plain, const GenerationResult& other);
void ExpectSoundStats(const GenerationResult& result);

// A chain of `tokens`.
DraftTree Chain(const std::vector<int32_t>& tokens);
// A tree of `width` children below the root with `depth` levels in each; `path` is one of the
// branches, the others carry other ids. path.size() == depth.
DraftTree Bush(const std::vector<int32_t>& path, int32_t width);

}  // namespace tahmin
