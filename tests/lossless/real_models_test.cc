// A sample of the identity grid, and the rejection rule's statistics, on the real models. Skipped,
// visibly, where a model is missing: scripts/fetch_models puts them under
// ${TAHMIN_MODELS:-$HOME/.cache/tahmin}.
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "accept/acceptance_rule.h"
#include "base/philox.h"
#include "gtest/gtest.h"
#include "model/model.h"
#include "sampling/candidates.h"
#include "sampling/chi_square_for_test.h"
#include "sampling/keyed_draw.h"
#include "tests/lossless/tiny_engine.h"
#include "tokenizer/tokenizer.h"

namespace tahmin {
namespace {

constexpr const char* kSmall = "smollm2-135m-instruct-q4_1.gguf";
constexpr const char* kTarget = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf";
constexpr const char* kDraft = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf";

std::string ModelPath(const std::string& name) {
  const char* folder = std::getenv("TAHMIN_MODELS");
  if (folder != nullptr && *folder != '\0') return std::string(folder) + "/" + name;
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "" : home) + "/.cache/tahmin/" + name;
}

bool IsThere(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

#define SKIP_UNLESS_THERE(name)  \
  if (!IsThere(ModelPath(name))) \
  GTEST_SKIP() << ModelPath(name) << " is missing (scripts/fetch_models)"

std::unique_ptr<Engine> MakeRealEngine(const std::string& target, const std::string& draft) {
  EngineOptions options;
  options.model_path = ModelPath(target);
  if (!draft.empty()) options.draft_model_path = ModelPath(draft);
  options.num_threads = 2;
  options.context_tokens = 512;
  options.prefill_chunk = 64;
  auto engine = Engine::Create(options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? std::move(engine).value() : nullptr;
}

std::string AsChat(const std::string& question) {
  return "<|im_start|>user\n" + question + "<|im_end|>\n<|im_start|>assistant\n";
}

// Prose, code, copying, a list and another script.
const std::vector<std::string>& Prompts() {
  static const std::vector<std::string> prompts = {
      AsChat("Tell me about a lighthouse keeper who collects maps."),
      "def mean(values):\n    \"\"\"Arithmetic mean of a list of numbers.\"\"\"\n",
      AsChat("Repeat this line three times: the quick brown fox jumps over the lazy dog."),
      AsChat("Zähle fünf Städte am Meer auf."),
  };
  return prompts;
}

GenerationRequest RealRequest(const Engine& engine, const std::string& text, int32_t max_tokens) {
  GenerationRequest request;
  const auto tokens = engine.tokenizer().Tokenize(text, {});
  EXPECT_TRUE(tokens.ok()) << tokens.status();
  if (tokens.ok()) request.prompt_tokens = *tokens;
  request.options.sampling.temperature = 0;
  request.options.max_tokens = max_tokens;
  return request;
}

// Plain once with two threads, then every drafter x K in {3, 8} x 1 and 2 threads. A drafter that
// guesses nothing proves nothing: all but lookup, which needs a repetition, must draft in every
// run. Adds up what each drafted.
void ExpectIdentity(Engine& engine, const GenerationRequest& request,
                    const std::vector<std::string>& drafters,
                    std::map<std::string, int64_t>* drafted) {
  engine.SetNumThreads(2);
  const GenerationResult plain = Generate(engine, request);
  ASSERT_FALSE(plain.tokens.empty());
  const struct { int32_t draft_max, threads; } settings[] = {{3, 2}, {8, 1}, {8, 2}, {3, 1}};
  size_t next_setting = 0;
  for (const std::string& drafter : drafters) {
    for (int32_t i = 0; i < 2; ++i) {
      const auto [draft_max, threads] = settings[next_setting++ % 4];
      SCOPED_TRACE(drafter + " K=" + std::to_string(draft_max) +
                   " threads=" + std::to_string(threads));
      engine.SetNumThreads(threads);
      const GenerationResult result = Generate(engine, WithDrafter(request, drafter, draft_max));
      ExpectSameOutput(plain, result);
      if (drafter != "lookup") {
        EXPECT_GT(result.stats.drafted, 0);
      }
      (*drafted)[drafter] += result.stats.drafted;
    }
  }
  engine.SetNumThreads(2);
  const GenerationResult replayed = Generate(engine, WithReplay(request, plain.tokens, 15));
  ExpectSameOutput(plain, replayed);
  EXPECT_GT(replayed.stats.drafted, 0);
  EXPECT_EQ(replayed.stats.accepted, replayed.stats.drafted);
}

void ExpectAllDrafted(const std::map<std::string, int64_t>& drafted) {
  EXPECT_FALSE(drafted.empty());
  for (const auto& [drafter, count] : drafted) {
    EXPECT_GT(count, 0) << drafter << " never guessed: the test proves nothing about it";
  }
}

TEST(RealModels, SmallModelWithLookupEqualsPlain) {
  SKIP_UNLESS_THERE(kSmall);
  const auto engine = MakeRealEngine(kSmall, "");
  ASSERT_NE(engine, nullptr);
  std::map<std::string, int64_t> drafted;
  for (const std::string& prompt : Prompts()) {
    const GenerationRequest request = RealRequest(*engine, prompt, 48);
    ExpectIdentity(*engine, request, {"lookup", "junk"}, &drafted);
    ExpectIdentity(*engine, WithSeed(request, 7), {"lookup", "junk"}, &drafted);
  }
  ExpectAllDrafted(drafted);
}

TEST(RealModels, PairEqualsPlain) {
  SKIP_UNLESS_THERE(kTarget);
  SKIP_UNLESS_THERE(kDraft);
  const auto engine = MakeRealEngine(kTarget, kDraft);
  ASSERT_NE(engine, nullptr);
  std::map<std::string, int64_t> drafted;
  for (size_t i = 0; i < Prompts().size(); ++i) {
    const GenerationRequest request = RealRequest(*engine, Prompts()[i], 24);
    ExpectIdentity(*engine, i % 2 == 0 ? request : WithSeed(request, 11 + i), {"draft", "lookup"},
                   &drafted);
  }
  // The other temperature for the two prompts on which the draft agrees most.
  ExpectIdentity(*engine, WithSeed(RealRequest(*engine, Prompts()[2], 24), 5), {"draft"}, &drafted);
  ExpectIdentity(*engine, RealRequest(*engine, Prompts()[1], 24), {"draft"}, &drafted);
  ExpectAllDrafted(drafted);
}

TEST(RealModels, DraftEqualToTargetIsAlwaysAccepted) {
  SKIP_UNLESS_THERE(kDraft);
  const auto engine = MakeRealEngine(kDraft, kDraft);
  ASSERT_NE(engine, nullptr);
  for (const std::string& prompt : Prompts()) {
    for (const bool is_sampled : {false, true}) {
      GenerationRequest request = RealRequest(*engine, prompt, 33);
      if (is_sampled) request = WithSeed(request, 3);
      for (int32_t draft_max : {3, 8}) {
        const GenerationResult result = Generate(*engine, WithDrafter(request, "draft", draft_max));
        EXPECT_GT(result.stats.drafted, 0);
        EXPECT_EQ(result.stats.accepted, result.stats.drafted);
      }
    }
  }
}

// Rows of logits of the small model: behind the prompt (the target's p), and behind the same prompt
// with another first token (a draft's q: near p, but not p).
class LogitRows {
 public:
  LogitRows(Engine& engine, const std::string& prompt) : engine_(engine) {
    tokens_ = RealRequest(engine, prompt, 1).prompt_tokens;
  }
  const std::vector<int32_t>& tokens() const { return tokens_; }

  std::vector<float> Behind(const std::vector<int32_t>& tokens) {
    KvCache cache(engine_.model().MakeKvShape(KvType::kF16));
    const auto scratch = *engine_.model().CreateScratch(64, 1, engine_.pool());
    const int32_t sequence = *cache.AddSequence(64);
    TokenBatch batch;
    batch.AppendChain(sequence, tokens.data(), static_cast<int32_t>(tokens.size()), false);
    EXPECT_TRUE(cache.Reserve(sequence, static_cast<int64_t>(tokens.size())).ok());
    engine_.model().Forward(batch, cache, *scratch, engine_.pool());
    return {scratch->logits().begin(), scratch->logits().end()};
  }

 private:
  Engine& engine_;
  std::vector<int32_t> tokens_;
};

SamplingOptions TopEight() {
  SamplingOptions sampling;
  sampling.temperature = 1.0f;
  sampling.top_k = 8;
  sampling.top_p = 1.0f;
  sampling.min_p = 0.0f;
  return sampling;
}

TEST(RealModels, RejectionRuleKeepsTheDistributionB05) {
  SKIP_UNLESS_THERE(kSmall);
  constexpr uint64_t kNumDraws = 20000;
  const auto engine = MakeRealEngine(kSmall, "");
  ASSERT_NE(engine, nullptr);
  LogitRows rows(*engine, "The weather in the mountains was");
  const std::vector<float> p_logits = rows.Behind(rows.tokens());
  std::vector<int32_t> without_first(rows.tokens().begin() + 1, rows.tokens().end());
  const std::vector<float> q_logits = rows.Behind(without_first);
  const int32_t vocab_size = engine->model().config().vocab_size;
  const int32_t valid = engine->tokenizer().vocab_size();

  CandidateBuilder builder(TopEight());
  const TokenDistribution p = ToDistribution(*builder.Build(p_logits, rows.tokens(), valid));
  const TokenDistribution q = ToDistribution(*builder.Build(q_logits, rows.tokens(), valid));
  double expected_acceptance = 0;
  std::map<int32_t, double> expected;
  for (const TokenProbability& entry : p.entries) {
    expected[entry.token] = entry.probability;
    expected_acceptance += std::min(entry.probability, q.ProbabilityOf(entry.token));
  }
  ASSERT_GT(expected_acceptance, 0.05);
  ASSERT_LT(expected_acceptance, 0.98) << "p and q are too close for the test to mean anything";

  // The row behind the draft token gives only the bonus token, which this test does not look at.
  std::vector<float> two_rows = p_logits;
  two_rows.insert(two_rows.end(), q_logits.begin(), q_logits.end());
  const VerifiedTree verified{.logits = two_rows, .vocab_size = vocab_size};
  const auto rule = MakeRejectionChain(TopEight());
  std::map<int32_t, int64_t> counts;
  int64_t num_accepted = 0;
  for (uint64_t seed = 0; seed < kNumDraws; ++seed) {
    DraftTree draft;
    DraftNode node;
    node.q = q;
    node.token = DrawFrom(q, StepUniform(seed, DrawPurpose::kDraft, 1, 0,
                                         static_cast<int64_t>(rows.tokens().size())));
    draft.nodes.push_back(node);
    const auto path = rule->Accept(
        draft, verified,
        {.tokens = rows.tokens(), .seed = seed, .step_index = 1, .valid_vocab_size = valid});
    ASSERT_TRUE(path.ok()) << path.status();
    counts[path->tokens[0]] += 1;
    num_accepted += path->nodes.empty() ? 0 : 1;
  }
  EXPECT_GT(PValueOfCounts(counts, expected), 2e-4);
  const double acceptance = static_cast<double>(num_accepted) / kNumDraws;
  const double standard_error =
      std::sqrt(expected_acceptance * (1 - expected_acceptance) / kNumDraws);
  EXPECT_NEAR(acceptance, expected_acceptance, 3 * standard_error);

  // The test's own eye: resampling a rejection from p instead of the residual is seen.
  std::map<int32_t, double> wrong;
  for (const TokenProbability& entry : p.entries) {
    wrong[entry.token] = std::min(entry.probability, q.ProbabilityOf(entry.token)) +
                         (1 - expected_acceptance) * entry.probability;
  }
  EXPECT_LT(PValueOfCounts(counts, wrong), 1e-9);
}

}  // namespace
}  // namespace tahmin
