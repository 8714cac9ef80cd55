// The same ids whatever the drafter, draft length, thread count, prefill chunk and cache type.
#include <cstdint>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/lossless/tiny_engine.h"

namespace tahmin {
namespace {

const std::vector<int32_t> kDraftLengths = {1, 2, 3, 4, 5, 7, 8, 15};

// Alone and fused, chains and trees.
constexpr const char* kAllDrafters[] = {
    "draft",     "lookup",       "suffix",           "recycling",
    "lookahead", "draft+suffix", "lookup+recycling", "suffix+recycling+lookahead+draft",
    "auto",      "junk"};

// Temperature 0 and three seeds at 0.8.
std::vector<GenerationRequest> FourSamplings(const GenerationRequest& request) {
  return {request, WithSeed(request, 1), WithSeed(request, 77), WithSeed(request, 123456789012345)};
}

struct Setting {
  int32_t threads, chunk;
  KvType kv_type;
  std::string draft;
};

// The plain run that all settings of one cache type must repeat.
GenerationResult PlainRun(KvType kv_type, const GenerationRequest& request) {
  static auto half = MakeTinyEngine({.draft = "", .kv_type = KvType::kF16});
  static auto full = MakeTinyEngine({.draft = "", .kv_type = KvType::kF32});
  return Generate(kv_type == KvType::kF16 ? *half : *full, request);
}

class DrafterGrid : public testing::TestWithParam<Setting> {};

TEST_P(DrafterGrid, IdsEqualPlainAtEveryDraftLengthB01) {
  const Setting setting = GetParam();
  auto engine = MakeTinyEngine({.draft = setting.draft,
                                .threads = setting.threads,
                                .prefill_chunk = setting.chunk,
                                .kv_type = setting.kv_type});
  const GenerationRequest request = TinyRequest(TinyPrompt(13));
  for (const GenerationRequest& sampling : FourSamplings(request)) {
    const GenerationResult plain = PlainRun(setting.kv_type, sampling);
    ASSERT_FALSE(plain.tokens.empty());
    ExpectSameOutput(plain, Generate(*engine, sampling));
    for (const char* drafter : {"draft", "lookup", "draft+suffix", "junk"}) {
      SCOPED_TRACE(std::string(drafter) + ", as much as pays");
      ExpectSameOutput(plain, Generate(*engine, WithAdaptive(sampling, drafter)));
    }
    for (int32_t draft_max : kDraftLengths) {
      for (const char* drafter : kAllDrafters) {
        SCOPED_TRACE(std::string(drafter) + " K=" + std::to_string(draft_max));
        ExpectSameOutput(plain, Generate(*engine, WithDrafter(sampling, drafter, draft_max)));
      }
      SCOPED_TRACE("replay K=" + std::to_string(draft_max));
      const GenerationResult replayed =
          Generate(*engine, WithReplay(sampling, plain.tokens, draft_max));
      ExpectSameOutput(plain, replayed);
      EXPECT_EQ(replayed.stats.accepted, replayed.stats.drafted);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    ThreadsChunksCaches, DrafterGrid,
    testing::Values(Setting{1, 512, KvType::kF16, "same"}, Setting{2, 1, KvType::kF16, "close"},
                    Setting{3, 2, KvType::kF32, "strange"}, Setting{5, 3, KvType::kF16, "same"},
                    Setting{2, 7, KvType::kF32, "close"}, Setting{1, 1, KvType::kF32, "same"},
                    Setting{3, 7, KvType::kF16, "close"}, Setting{2, 512, KvType::kF32, "same"},
                    Setting{5, 2, KvType::kF16, "strange"}, Setting{1, 3, KvType::kF32, "close"}));

TEST(DrafterIdentity, OtherArchitecturesAndFormatsB01) {
  for (const char* architecture : {"llama", "qwen2", "qwen3"}) {
    for (TensorType type : {TensorType::kQ4_0, TensorType::kQ5_1, TensorType::kF16}) {
      SCOPED_TRACE(std::string(architecture) + " type " + std::to_string(static_cast<int>(type)));
      TinyModelOptions model = TinyTarget();
      model.architecture = architecture;
      model.weight_type = type;
      model.tied_embedding = type == TensorType::kF16;
      auto engine = MakeTinyEngine({.target = model, .threads = 2});
      for (const GenerationRequest& sampling : FourSamplings(TinyRequest(TinyPrompt(9, 3)))) {
        const GenerationResult plain = Generate(*engine, sampling);
        for (int32_t draft_max : {1, 3, 8}) {
          ExpectSameOutput(plain, Generate(*engine, WithDrafter(sampling, "draft", draft_max)));
          ExpectSameOutput(plain, Generate(*engine, WithDrafter(sampling, "lookup", draft_max)));
          ExpectSameOutput(plain, Generate(*engine, WithReplay(sampling, plain.tokens, draft_max)));
        }
      }
    }
  }
}

TEST(DrafterIdentity, TreesOfTwoToThirtyTwoNodes) {
  auto engine = MakeTinyEngine({.draft = "close", .threads = 2, .prefill_chunk = 7});
  int64_t wide_accepted = 0;
  for (const GenerationRequest& sampling : FourSamplings(TinyRequest(TinyPrompt(13, 5)))) {
    const GenerationResult plain = Generate(*engine, sampling);
    for (int32_t nodes : {2, 5, 8, 16, 32}) {
      for (int32_t width : {2, 4}) {
        for (const char* drafter : kAllDrafters) {
          SCOPED_TRACE(fmt::format("{} {} nodes width {}", drafter, nodes, width));
          GenerationRequest request = WithDrafter(sampling, drafter, nodes);
          request.draft.draft_width = width;
          const GenerationResult result = Generate(*engine, request);
          ExpectSameOutput(plain, result);
          wide_accepted += result.stats.accepted;
        }
      }
    }
  }
  EXPECT_GT(wide_accepted, 100);
}

TEST(DrafterIdentity, EarlierOutputsOfTheSuffixStoreChangeNothing) {
  auto plain_engine = MakeTinyEngine();
  auto engine = MakeTinyEngine({.suffix_store_bytes = 1 << 20});
  int64_t first = 0, again = 0;
  for (int32_t round = 0; round < 2; ++round) {
    for (const GenerationRequest& sampling : FourSamplings(TinyRequest(TinyPrompt(13, 6)))) {
      const GenerationResult plain = Generate(*plain_engine, sampling);
      const GenerationResult result = Generate(*engine, WithDrafter(sampling, "suffix", 8));
      ExpectSameOutput(plain, result);
      (round == 0 ? first : again) += result.stats.accepted;
    }
  }
  EXPECT_GT(again, first);  // the second time the store knows the answer
}

// What `bench` and `audit` measure must not be drafts out of their own earlier runs.
TEST(DrafterIdentity, OutputsThatAreNotKeptDoNotReachTheSuffixStore) {
  auto engine = MakeTinyEngine({.suffix_store_bytes = 1 << 20});
  GenerationRequest request = WithDrafter(TinyRequest(TinyPrompt(13, 6)), "suffix", 8);
  request.keep_output = false;
  const GenerationResult first = Generate(*engine, request);
  const GenerationResult again = Generate(*engine, request);
  EXPECT_EQ(again.stats.drafted, first.stats.drafted);
  EXPECT_EQ(again.stats.accepted, first.stats.accepted);
  request.keep_output = true;
  Generate(*engine, request);
  EXPECT_GT(Generate(*engine, request).stats.accepted, first.stats.accepted);
}

TEST(DrafterIdentity, PromptLengthsAroundThePrefillChunkB03) {
  constexpr int32_t kChunk = 8;
  auto whole = MakeTinyEngine();
  auto chunked = MakeTinyEngine({.threads = 2, .prefill_chunk = kChunk});
  for (int32_t length : {1, 2, kChunk - 1, kChunk, kChunk + 1, 2 * kChunk, 2 * kChunk + 1}) {
    SCOPED_TRACE("prompt of " + std::to_string(length));
    for (GenerationRequest request : FourSamplings(TinyRequest(TinyPrompt(length)))) {
      request.options.max_tokens = 8;
      const GenerationResult plain = Generate(*whole, request);
      ExpectSameOutput(plain, Generate(*chunked, request));
      for (const char* drafter : {"draft", "lookup", "junk"}) {
        ExpectSameOutput(plain, Generate(*chunked, WithDrafter(request, drafter, 4)));
      }
      ExpectSameOutput(plain, Generate(*chunked, WithReplay(request, plain.tokens, 4)));
      const GenerationResult own_draft = Generate(*chunked, WithDrafter(request, "draft", 4));
      EXPECT_EQ(own_draft.stats.accepted, own_draft.stats.drafted);
    }
  }
}

TEST(DrafterIdentity, DraftEqualToTargetIsAlwaysAcceptedB03B28) {
  // With equal cache types the draft computes the target's own bits, so nothing at all is rejected.
  for (KvType kv_type : {KvType::kF16, KvType::kF32}) {
    auto engine = MakeTinyEngine(
        {.threads = 2, .prefill_chunk = 5, .kv_type = kv_type, .draft_kv_type = kv_type});
    for (const GenerationRequest& request : FourSamplings(TinyRequest(TinyPrompt(21, 1)))) {
      for (int32_t draft_max : kDraftLengths) {
        const GenerationResult result = Generate(*engine, WithDrafter(request, "draft", draft_max));
        EXPECT_GT(result.stats.drafted, 0);
        EXPECT_EQ(result.stats.accepted, result.stats.drafted) << "K=" << draft_max;
      }
    }
  }
}

TEST(DrafterIdentity, CacheTypesOfTargetAndDraftAreSeparateB28) {
  for (KvType kv_type : {KvType::kF16, KvType::kF32}) {
    for (KvType draft_kv_type : {KvType::kF16, KvType::kF32}) {
      auto engine = MakeTinyEngine({.kv_type = kv_type, .draft_kv_type = draft_kv_type});
      int64_t drafted = 0, accepted = 0;
      for (const GenerationRequest& request : FourSamplings(TinyRequest(TinyPrompt(17, 2)))) {
        const GenerationResult plain = Generate(*engine, request);
        const GenerationResult result = Generate(*engine, WithDrafter(request, "draft", 4));
        ExpectSameOutput(plain, result);
        drafted += result.stats.drafted;
        accepted += result.stats.accepted;
      }
      // Other roundings move a tiny random model's near-ties; a collapse would be far below.
      EXPECT_GE(accepted, drafted * 3 / 4);
      if (kv_type == draft_kv_type) {
        EXPECT_EQ(accepted, drafted);
      }
    }
  }
}

TEST(DrafterIdentity, DraftContextSmallerThanTheTargetsB24) {
  for (int32_t draft_context : {1, 12, 13, 20, 40}) {
    auto engine = MakeTinyEngine({.draft_context_tokens = draft_context});
    for (GenerationRequest request : FourSamplings(TinyRequest(TinyPrompt(12)))) {
      request.options.max_tokens = 60;
      const GenerationResult plain = Generate(*engine, request);
      const GenerationResult result = Generate(*engine, WithDrafter(request, "draft", 5));
      ExpectSameOutput(plain, result);
      // It drafts while there is room, then stops: never more tokens than its cache could hold.
      EXPECT_LE(result.stats.accepted, std::max(0, draft_context - 12 + 1));
      if (draft_context >= 20) {
        EXPECT_GT(result.stats.drafted, 0);
      }
    }
  }
}

TEST(DrafterIdentity, PromptShorterThanTheNgramB34) {
  auto engine = MakeTinyEngine();
  for (int32_t length : {1, 2, 3}) {
    for (GenerationRequest request : FourSamplings(TinyRequest(TinyPrompt(length)))) {
      const GenerationResult plain = Generate(*engine, request);
      request.draft.lookup_min_ngram = 3;
      request.draft.lookup_max_ngram = 4;
      ExpectSameOutput(plain, Generate(*engine, WithDrafter(request, "lookup", 6)));
    }
  }
}

TEST(DrafterIdentity, PromptOfOnlyABeginTokenB34) {
  auto engine = MakeTinyEngine();
  const GenerationRequest request = TinyRequest({TinyVocabulary::kBegin});
  const GenerationResult plain = Generate(*engine, request);
  ExpectSameOutput(plain, Generate(*engine, WithDrafter(request, "draft", 4)));
  ExpectSameOutput(plain, Generate(*engine, WithDrafter(request, "lookup", 4)));
}

}  // namespace
}  // namespace tahmin
