// An approximate draft model (weights in 4 bits, a cut or coarse output head) changes how much is
// accepted and nothing else.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lossless/tiny_engine.h"

namespace tahmin {
namespace {

struct CheapDraft {
  DraftRepack repack;
  DraftHead head;
  int32_t head_tokens;
};

const std::vector<CheapDraft> kCheapDrafts = {
    {DraftRepack::k4Bit, DraftHead::kExact, 0},
    {DraftRepack::kStored, DraftHead::kFrequent, 64},
    {DraftRepack::k4Bit, DraftHead::kFrequent, 1},
    {DraftRepack::k4Bit, DraftHead::kFrequent, std::numeric_limits<int32_t>::max()},
    {DraftRepack::kStored, DraftHead::kCoarse, 1},
    {DraftRepack::k4Bit, DraftHead::kCoarse, 16},
    {DraftRepack::k4Bit, DraftHead::kCoarse, 100000},
};

std::unique_ptr<Engine> MakeEngine(const CheapDraft& cheap, const std::string& draft) {
  return MakeTinyEngine({.draft = draft,
                         .threads = 2,
                         .draft_repack = cheap.repack,
                         .draft_head = cheap.head,
                         .draft_head_tokens = cheap.head_tokens});
}

std::vector<GenerationRequest> Samplings() {
  GenerationRequest request = TinyRequest(TinyPrompt(13));
  GenerationRequest unfiltered = WithSeed(request, 5);
  unfiltered.options.sampling.top_k = 0;
  unfiltered.options.sampling.top_p = 1;
  unfiltered.options.sampling.min_p = 0;
  return {request, WithSeed(request, 1), unfiltered};
}

TEST(CheapDraft, IdsEqualPlainWithEveryHeadAndRepack) {
  auto plain = MakeTinyEngine({.draft = ""});
  for (const CheapDraft& cheap : kCheapDrafts) {
    for (const char* draft : {"same", "close"}) {
      SCOPED_TRACE(std::string(draft) + " head " + std::to_string(static_cast<int>(cheap.head)) +
                   " tokens " + std::to_string(cheap.head_tokens));
      auto engine = MakeEngine(cheap, draft);
      for (const GenerationRequest& request : Samplings()) {
        const GenerationResult expected = Generate(*plain, request);
        for (const int32_t draft_max : {1, 4, 8}) {
          const GenerationResult result =
              Generate(*engine, WithDrafter(request, "draft", draft_max));
          ExpectSameOutput(expected, result);
          ExpectSoundStats(result);
          EXPECT_GT(result.stats.drafted, 0);
        }
      }
    }
  }
}

// The rejection rule checks that every q adds up to 1 and that its token was drawn from it; an
// error would end the request.
TEST(CheapDraft, RejectionTakesTheSparseDistributionsOfCutHeads) {
  for (const CheapDraft& cheap : kCheapDrafts) {
    auto engine = MakeEngine(cheap, "same");
    for (GenerationRequest request : Samplings()) {
      request.options.acceptance = AcceptanceRuleKind::kRejection;
      const GenerationResult result = Generate(*engine, WithDrafter(request, "draft", 4));
      ExpectSoundStats(result);
      EXPECT_GT(result.stats.drafted, 0);
    }
  }
}

TEST(CheapDraft, ExactHeadAndStoredWeightsOfTheTargetAreAlwaysAccepted) {
  // Auto, too: the draft model is the target's own file.
  for (const CheapDraft& exact : {CheapDraft{DraftRepack::kStored, DraftHead::kExact, 0},
                                  CheapDraft{DraftRepack::kAuto, DraftHead::kAuto, 0}}) {
    auto engine = MakeEngine(exact, "same");
    for (const GenerationRequest& request : Samplings()) {
      const GenerationResult result = Generate(*engine, WithDrafter(request, "draft", 4));
      EXPECT_GT(result.stats.drafted, 0);
      EXPECT_EQ(result.stats.accepted, result.stats.drafted);
    }
  }
}

TEST(CheapDraft, ALittleApproximationKeepsMostOfTheAcceptance) {
  for (const CheapDraft& cheap : {CheapDraft{DraftRepack::kStored, DraftHead::kCoarse, 64},
                                  CheapDraft{DraftRepack::kStored, DraftHead::kFrequent, 300}}) {
    auto engine = MakeEngine(cheap, "same");
    const GenerationRequest request = TinyRequest(TinyPrompt(13));
    const GenerationResult result = Generate(*engine, WithDrafter(request, "draft", 4));
    EXPECT_GE(result.stats.accepted, result.stats.drafted * 3 / 4);
  }
}

TEST(CheapDraft, PlanAndEngineAgreeOnWhatIsLoaded) {
  TinyModelOptions wide = TinyTarget();
  wide.embedding_length = 256;  // two bits a weight pay only for rows that fill their vectors
  EngineOptions options;
  options.model_path = TinyModelPath(wide);
  options.draft_model_path = options.model_path;
  const auto draft_row = [&]() -> MemoryPlanRow {
    const auto plan = Engine::Plan(options);
    EXPECT_TRUE(plan.ok()) << plan.status();
    for (const MemoryPlanRow& row : plan->rows) {
      if (row.name.starts_with("draft weights")) return row;
    }
    ADD_FAILURE() << "no row for the draft's weights";
    return {};
  };
  EXPECT_EQ(draft_row().name, "draft weights (the target's)");
  EXPECT_EQ(draft_row().bytes, 0u);
  options.draft_repack = DraftRepack::k4Bit;
  const uint64_t exact_head = draft_row().bytes;
  EXPECT_GT(exact_head, 0u);
  options.draft_head = DraftHead::kCoarse;
  EXPECT_LT(draft_row().bytes, exact_head);
  options.draft_head = DraftHead::kFrequent;
  options.draft_head_tokens = 1;
  const uint64_t few_tokens = draft_row().bytes;
  options.draft_head_tokens = 310;
  EXPECT_GT(draft_row().bytes, few_tokens);
}

TEST(CheapDraft, NegativeHeadTokensAreRefused) {
  EngineOptions options;
  options.model_path = TinyModelPath(TinyTarget());
  options.draft_model_path = options.model_path;
  options.draft_head_tokens = -1;
  const auto plan = Engine::Plan(options);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(plan.status().message()), testing::HasSubstr("draft_head_tokens is -1"));
}

}  // namespace
}  // namespace tahmin
