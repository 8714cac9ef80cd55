#include "tahmin/engine.h"

#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/model.h"
#include "tests/data/tiny_model.h"
#include "tokenizer/tokenizer.h"

namespace tahmin {
namespace {

using testing::HasSubstr;

std::string WriteModel(const TinyModelOptions& options, const std::string& name) {
  const std::string path =
      testing::TempDir() + "tahmin-engine-" + std::to_string(getpid()) + "-" + name;
  WriteTinyModel(options, path);
  return path;
}

class EngineTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    target_path_ = WriteModel({}, "target.gguf");
    EngineOptions options;
    options.model_path = target_path_;
    options.draft_model_path = target_path_;
    options.num_threads = 2;
    options.context_tokens = 128;
    auto engine = Engine::Create(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = std::move(engine).value();
  }
  static void TearDownTestSuite() {
    engine_.reset();
    std::remove(target_path_.c_str());
  }

  static GenerationRequest Request() {
    GenerationRequest request;
    request.prompt_tokens = {10, 20, 30, 10, 20};
    request.options.sampling.temperature = 0;
    request.options.max_tokens = 12;
    request.options.ignore_end_tokens = true;
    return request;
  }
  static std::string Refusal(const GenerationRequest& request) {
    const auto result = engine_->Generate(request);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << result.status();
    return std::string(result.status().message());
  }

  static std::string target_path_;
  static std::unique_ptr<Engine> engine_;
};
std::string EngineTest::target_path_;
std::unique_ptr<Engine> EngineTest::engine_;

TEST_F(EngineTest, EmptyPromptIsRefusedB34) {
  GenerationRequest request = Request();
  request.prompt_tokens.clear();
  EXPECT_THAT(Refusal(request), HasSubstr("no tokens"));
}

TEST_F(EngineTest, IdsOutsideTheVocabularyAreRefusedB35) {
  for (int32_t bad : {-1, 320, std::numeric_limits<int32_t>::max()}) {
    GenerationRequest request = Request();
    request.prompt_tokens[2] = bad;
    EXPECT_THAT(Refusal(request), HasSubstr(std::to_string(bad)));
    request = Request();
    request.options.end_tokens = {bad};
    EXPECT_THAT(Refusal(request), HasSubstr(std::to_string(bad)));
  }
}

TEST_F(EngineTest, OptionsOutOfRangeAreRefusedByName) {
  GenerationRequest request = Request();
  request.options.sampling.top_p = 1.5f;
  EXPECT_THAT(Refusal(request), HasSubstr("top_p"));
  request = Request();
  request.options.sampling.temperature = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(Refusal(request), HasSubstr("temperature"));
  request = Request();
  request.options.max_tokens = 0;
  EXPECT_THAT(Refusal(request), HasSubstr("max_tokens"));
  request = Request();
  request.options.stop = {""};
  EXPECT_THAT(Refusal(request), HasSubstr("stop string"));
  request.options.stop = {"\xff"};
  EXPECT_THAT(Refusal(request), HasSubstr("UTF-8"));
  request = Request();
  request.options.num_logprobs = -1;
  EXPECT_THAT(Refusal(request), HasSubstr("num_logprobs"));
  request = Request();
  request.draft.draft_max = -1;
  EXPECT_THAT(Refusal(request), HasSubstr("draft_max"));
  request = Request();
  request.draft.drafter = "lookup";
  request.draft.lookup_min_ngram = 9;
  EXPECT_THAT(Refusal(request), HasSubstr("n-gram"));
}

TEST_F(EngineTest, UnknownDrafterIsNamedWithTheKnownOnes) {
  GenerationRequest request = Request();
  request.draft.drafter = "oracle";
  const auto result = engine_->Generate(request);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("oracle"));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("lookup"));
}

TEST_F(EngineTest, DrafterListsThatMakeNoSenseAreRefused) {
  GenerationRequest request = Request();
  for (const char* list : {"none+lookup", "lookup+lookup", "lookup+", "+", "", "lookup+oracle"}) {
    request.draft.drafter = list;
    EXPECT_EQ(engine_->Generate(request).status().code(), absl::StatusCode::kInvalidArgument)
        << list;
  }
  request.draft.drafter = "rest";
  EXPECT_EQ(engine_->Generate(request).status().code(), absl::StatusCode::kFailedPrecondition);
  request.draft.drafter = "lookup+suffix";
  request.options.acceptance = AcceptanceRuleKind::kRejection;
  EXPECT_THAT(Refusal(request), HasSubstr("one drafter"));
}

TEST_F(EngineTest, DraftersThatCannotAdaptAreRefusedByName) {
  GenerationRequest request = Request();
  request.draft.is_adaptive = true;
  for (const char* drafter : {"none", "lookahead"}) {
    request.draft.drafter = drafter;
    EXPECT_THAT(Refusal(request), HasSubstr(drafter));
  }
  request.draft.drafter = "lookup";
  EXPECT_TRUE(engine_->Generate(request).ok());
  request.options.acceptance = AcceptanceRuleKind::kRejection;
  EXPECT_THAT(Refusal(request), HasSubstr("is_adaptive"));
}

// Each list of drafters has a controller of its own, and what one learns of a draft pass is not
// lost where the next has no draft model.
TEST_F(EngineTest, ControllersOfSeveralListsShareTheCostsOfAStep) {
  const std::string path = testing::TempDir() + "/shared_step_costs.json";
  std::remove(path.c_str());
  EngineOptions options;
  options.model_path = target_path_;
  options.draft_model_path = target_path_;
  options.context_tokens = 64;
  options.num_threads = 1;
  options.step_costs_path = path;
  auto engine = Engine::Create(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  GenerationRequest request = Request();
  request.draft.is_adaptive = true;
  for (int32_t draft_max = 1; draft_max <= 12; ++draft_max) {  // more than are kept
    for (const char* drafter : {"draft", "suffix", "lookup+suffix"}) {
      request.draft.drafter = drafter;
      request.draft.draft_max = draft_max;
      const auto result = (*engine)->Generate(request);
      ASSERT_TRUE(result.ok()) << drafter << ": " << result.status();
    }
  }
  (*engine).reset();
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_THAT(text, testing::ContainsRegex("draft_pass_ms\": *[0-9.e-]*[1-9]"));
  std::remove(path.c_str());
}

// A step's costs go to the file when the engine ends, and the next engine starts from them.
TEST_F(EngineTest, StepCostsAreKeptForTheNextEngine) {
  const std::string path = testing::TempDir() + "/step_costs.json";
  std::remove(path.c_str());
  EngineOptions options;
  options.model_path = target_path_;
  options.context_tokens = 64;
  options.num_threads = 1;
  options.step_costs_path = path;
  GenerationRequest request = Request();
  request.draft.drafter = "auto";
  for (int32_t round = 0; round < 2; ++round) {
    auto engine = Engine::Create(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    EXPECT_TRUE((*engine)->Generate(request).ok());
    (*engine).reset();
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    EXPECT_THAT(text, HasSubstr("draft_pass_ms"));
    // Damaged, it is measured again and replaced.
    std::ofstream(path) << (round == 0 ? "{\"x\": [1" : "");
  }
}

TEST_F(EngineTest, DraftDrafterWithoutADraftModelSaysWhatIsMissing) {
  EngineOptions options;
  options.model_path = target_path_;
  options.context_tokens = 32;
  options.num_threads = 1;
  auto engine = Engine::Create(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_EQ((*engine)->draft_model(), nullptr);
  GenerationRequest request = Request();
  request.draft.drafter = "draft";
  const auto result = (*engine)->Generate(request);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("-md"));
}

TEST_F(EngineTest, StatsOfPlainDecodingB41) {
  const auto result = engine_->Generate(Request());
  ASSERT_TRUE(result.ok()) << result.status();
  const GenerationStats& stats = result->stats;
  EXPECT_EQ(stats.prompt_tokens, 5);
  EXPECT_EQ(stats.generated_tokens, 12);
  EXPECT_EQ(stats.steps, 11);  // the first token comes out of the prefill
  EXPECT_EQ(stats.drafted, 0);
  EXPECT_EQ(stats.cut, 0);
  EXPECT_EQ(stats.TokensPerStep(), 1.0);
  EXPECT_EQ(stats.AcceptanceRate(), 0.0);
  EXPECT_GT(stats.prefill_ms, 0.0);
  EXPECT_GE(stats.ttft_ms, stats.prefill_ms);
  EXPECT_GE(stats.total_ms, stats.prefill_ms + stats.decode_ms - 1e-6);
  EXPECT_GT(stats.TokensPerSecond(), 0.0);
  EXPECT_EQ(result->finish_reason, "length");
}

TEST_F(EngineTest, EndAtOffsetTwoOfABlockOfFiveB41) {
  const auto plain = engine_->Generate(Request());
  ASSERT_TRUE(plain.ok()) << plain.status();
  // The first place from 2 on whose token has not been written before: the end must be there.
  size_t end = 2;
  auto is_new = [&](size_t i) {
    return std::find(plain->tokens.begin(), plain->tokens.begin() + i, plain->tokens[i]) ==
           plain->tokens.begin() + i;
  };
  while (end < plain->tokens.size() && !is_new(end)) ++end;
  ASSERT_LT(end, plain->tokens.size()) << "this model repeats itself too soon for the test";

  GenerationRequest request = Request();
  request.options.end_tokens = {plain->tokens[end]};
  request.draft = {.drafter = "replay", .draft_max = static_cast<int32_t>(end) + 3};
  request.script_tokens = request.prompt_tokens;
  request.script_tokens.insert(request.script_tokens.end(), plain->tokens.begin(),
                               plain->tokens.end());
  const auto result = engine_->Generate(request);
  ASSERT_TRUE(result.ok()) << result.status();
  const GenerationStats& stats = result->stats;
  const auto emitted =
      static_cast<int64_t>(end);  // behind the prefill's token, the end token included
  EXPECT_EQ(stats.steps, 1);
  EXPECT_EQ(stats.generated_tokens, emitted + 1);
  EXPECT_EQ(stats.accepted, stats.drafted);
  EXPECT_EQ(stats.cut, stats.drafted + 1 - emitted);
  EXPECT_EQ(emitted, stats.accepted + stats.steps - stats.cut);
  EXPECT_DOUBLE_EQ(stats.TokensPerStep(), static_cast<double>(emitted));
}

TEST_F(EngineTest, DrafterTimeLiesInsideDecodeTimeB43) {
  GenerationRequest request = Request();
  request.draft = {.drafter = "draft", .draft_max = 3};
  const auto result = engine_->Generate(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->stats.draft_ms, 0.0);
  EXPECT_LE(result->stats.draft_ms + result->stats.verify_ms, result->stats.decode_ms + 1.0);
}

TEST_F(EngineTest, EventsTellAllTokensAndWhichWereDrafted) {
  GenerationRequest request = Request();
  request.draft = {.drafter = "draft", .draft_max = 3};
  std::vector<int32_t> tokens;
  int64_t num_drafted = 0;
  std::string text;
  const auto result = engine_->Generate(request, [&](const TokenEvent& event) {
    tokens.push_back(event.token);
    num_drafted += event.was_drafted ? 1 : 0;
    text += event.text_delta;
  });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(tokens, result->tokens);
  EXPECT_EQ(num_drafted, result->stats.accepted);
  EXPECT_EQ(text, result->text);
}

TEST_F(EngineTest, PrefillProgressGoesToTheEnd) {
  engine_->SetPrefillChunk(2);
  std::vector<int64_t> seen;
  const auto result = engine_->Generate(Request(), {}, [&](int64_t done, int64_t total) {
    EXPECT_EQ(total, 5);
    seen.push_back(done);
  });
  engine_->SetPrefillChunk(512);
  ASSERT_TRUE(result.ok()) << result.status();
  const std::vector<int64_t> expected = {0, 2, 4, 5};
  EXPECT_EQ(seen, expected);
}

TEST_F(EngineTest, DraftLengthMayBeLongerThanPlannedFor) {
  GenerationRequest request = Request();
  request.options.max_tokens = 80;
  const auto plain = engine_->Generate(request);
  request.draft = {.drafter = "draft", .draft_max = 40};
  const auto result = engine_->Generate(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->tokens, plain->tokens);
  EXPECT_EQ(result->stats.steps, 2);  // 80 = 1 + 41 + 38
}

TEST_F(EngineTest, UnusableOptionsAreRefusedBeforeLoading) {
  EngineOptions options;
  EXPECT_EQ(Engine::Create(options).status().code(), absl::StatusCode::kInvalidArgument);
  options.model_path = target_path_;
  options.prefill_chunk = 0;
  EXPECT_EQ(Engine::Create(options).status().code(), absl::StatusCode::kInvalidArgument);
  options.prefill_chunk = 512;
  options.context_tokens = 1;
  EXPECT_EQ(Engine::Plan(options).status().code(), absl::StatusCode::kInvalidArgument);
  options.context_tokens = 0;
  options.model_path = target_path_ + ".missing";
  EXPECT_FALSE(Engine::Create(options).ok());
}

TEST_F(EngineTest, ContextZeroIsWhatTheModelWasTrainedFor) {
  EngineOptions options;
  options.model_path = target_path_;
  options.context_tokens = 0;
  options.num_threads = 1;
  const auto engine = Engine::Create(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_EQ((*engine)->context_tokens(), TinyModelOptions{}.context_length);
}

TEST_F(EngineTest, VocabulariesThatDifferOnlyInPaddingServeEachOtherB35) {
  TinyModelOptions padded;
  padded.vocab_size = 352;
  padded.seed = 3;
  const std::string padded_path = WriteModel(padded, "padded.gguf");
  for (const bool is_target_padded : {false, true}) {
    EngineOptions options;
    options.model_path = is_target_padded ? padded_path : target_path_;
    options.draft_model_path = is_target_padded ? target_path_ : padded_path;
    options.context_tokens = 64;
    options.num_threads = 1;
    auto engine = Engine::Create(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    for (float temperature : {0.0f, 2.0f}) {
      GenerationRequest request = Request();
      request.options.max_tokens = 40;
      request.options.sampling.temperature = temperature;
      request.options.sampling.top_k = 0;
      request.options.sampling.top_p = 1.0f;
      request.options.sampling.min_p = 0.0f;
      request.options.sampling.seed = 4;
      // Padding ids of the larger vocabulary are as likely as any other; the smaller has no row for
      // them.
      for (int32_t id = 320; is_target_padded && id < 352; ++id) {
        request.options.sampling.logit_bias.emplace_back(id, 3.0f);
      }
      const auto plain = (*engine)->Generate(request);
      ASSERT_TRUE(plain.ok()) << plain.status();
      for (const AcceptanceRuleKind rule :
           {AcceptanceRuleKind::kKeyed, AcceptanceRuleKind::kRejection}) {
        request.draft = {.drafter = "draft", .draft_max = 4};
        request.options.acceptance = rule;
        const auto result = (*engine)->Generate(request);
        ASSERT_TRUE(result.ok()) << result.status();
        if (rule == AcceptanceRuleKind::kKeyed) {
          EXPECT_EQ(result->tokens, plain->tokens);
        }
      }
    }
  }
  std::remove(padded_path.c_str());
}

TEST_F(EngineTest, PlanNamesEveryPartAndAddsUpB40) {
  TinyModelOptions small;
  small.num_layers = 1;
  const std::string draft_path = WriteModel(small, "draft.gguf");
  EngineOptions options;
  options.model_path = target_path_;
  options.draft_model_path = draft_path;
  options.context_tokens = 128;
  const auto plan = Engine::Plan(options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  uint64_t total = 0;
  std::vector<std::string> names;
  for (const MemoryPlanRow& row : plan->rows) {
    EXPECT_GT(row.bytes, 0u) << row.name;
    total += row.bytes;
    names.push_back(row.name);
  }
  EXPECT_EQ(plan->total_bytes, total);
  EXPECT_THAT(names, testing::IsSupersetOf({"target weights", "target KV cache", "draft weights",
                                            "draft KV cache", "draft scratch", "tokenizer"}));
  std::remove(draft_path.c_str());
}

}  // namespace
}  // namespace tahmin
