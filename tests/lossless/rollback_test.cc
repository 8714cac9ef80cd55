// What rejected tokens leave behind: nothing. Compared byte by byte with caches that never saw
// them.
#include <cstdint>
#include <numeric>
#include <vector>

#include "accept/acceptance_rule.h"
#include "draft/test_drafters.h"
#include "gtest/gtest.h"
#include "kv/kv_cache.h"
#include "model/model.h"
#include "tests/lossless/tiny_engine.h"
#include "verify/tree_layout.h"
#include "verify/verifier.h"

namespace tahmin {
namespace {

constexpr int64_t kSlots = 1200;

// One target with a cache that may hold several sequences.
class Target {
 public:
  explicit Target(const TinyModelOptions& options)
      : engine_(MakeTinyEngine({.target = options, .draft = ""})),
        model_(engine_->model()),
        cache_(model_.MakeKvShape(KvType::kF16)),
        scratch_(*model_.CreateScratch(64, 64, engine_->pool())),
        verifier_(model_, cache_, *scratch_, engine_->pool()) {}

  int32_t AddSequence() { return *cache_.AddSequence(kSlots); }
  KvCache& cache() { return cache_; }
  const Model& model() const { return model_; }

  void Prefill(int32_t sequence, std::vector<int32_t> tokens) {
    for (size_t start = 0; start < tokens.size(); start += 50) {
      const auto count = static_cast<int32_t>(std::min<size_t>(50, tokens.size() - start));
      TokenBatch batch;
      batch.AppendChain(sequence, tokens.data() + start, count, false);
      ASSERT_TRUE(cache_.Reserve(sequence, count).ok());
      model_.Forward(batch, cache_, *scratch_, engine_->pool());
      std::vector<int32_t> path(count);
      std::iota(path.begin(), path.end(), 0);
      cache_.Commit(sequence, path);
    }
  }

  // One greedy step with `draft`; appends the new tokens.
  void Step(int32_t sequence, const DraftTree& draft, std::vector<int32_t>* tokens) {
    const auto verified = verifier_.Verify(sequence, tokens->back(), draft);
    ASSERT_TRUE(verified.ok()) << verified.status();
    SamplingOptions greedy;
    greedy.temperature = 0;
    const auto path = MakeKeyedMatch(greedy)->Accept(
        draft, *verified, {.tokens = *tokens, .valid_vocab_size = model_.config().vocab_size});
    ASSERT_TRUE(path.ok()) << path.status();
    std::vector<int32_t> slots = {0};
    for (int32_t node : path->nodes) slots.push_back(1 + node);
    cache_.Commit(sequence, slots);
    tokens->insert(tokens->end(), path->tokens.begin(), path->tokens.end());
  }

 private:
  std::unique_ptr<Engine> engine_;
  const Model& model_;
  KvCache cache_;
  std::unique_ptr<ForwardScratch> scratch_;
  Verifier verifier_;
};

DraftTree JunkTree(const std::vector<int32_t>& tokens, int64_t step, int32_t vocab_size) {
  static const std::unique_ptr<Drafter> junk = MakeJunk(vocab_size);
  return junk->Draft({.tokens = tokens, .step_index = step}, {.max_tokens = 6, .max_depth = 6});
}

void ExpectThousandCleanRounds(const TinyModelOptions& options) {
  Target target(options);
  const int32_t drafted = target.AddSequence();
  const int32_t plain = target.AddSequence();
  std::vector<int32_t> drafted_tokens = TinyPrompt(9);
  std::vector<int32_t> plain_tokens = drafted_tokens;
  for (int32_t sequence : {drafted, plain}) {
    target.Prefill(sequence, {drafted_tokens.begin(), drafted_tokens.end() - 1});
  }
  for (int64_t round = 0; round < 1000; ++round) {
    const DraftTree junk = JunkTree(drafted_tokens, round, options.vocab_size);
    target.Step(drafted, junk, &drafted_tokens);
    while (plain_tokens.size() < drafted_tokens.size()) target.Step(plain, {}, &plain_tokens);
    ASSERT_EQ(drafted_tokens, plain_tokens) << "round " << round;
    ASSERT_EQ(target.cache().CommittedBytesForTest(drafted),
              target.cache().CommittedBytesForTest(plain))
        << "round " << round;
    if (round % 100 != 99) continue;
    const int32_t fresh = target.AddSequence();
    target.Prefill(fresh, {drafted_tokens.begin(), drafted_tokens.end() - 1});
    ASSERT_EQ(target.cache().CommittedBytesForTest(drafted),
              target.cache().CommittedBytesForTest(fresh))
        << "round " << round;
    target.cache().RemoveSequence(fresh);
  }
}

TEST(Rollback, JunkLeavesNoTraceInTheCacheB26) { ExpectThousandCleanRounds(TinyTarget()); }

TEST(Rollback, JunkLeavesNoTraceWithASlidingWindowB26) {
  TinyModelOptions sliding = TinyTarget();
  sliding.sliding_window = 64;
  sliding.seed = 5;
  ExpectThousandCleanRounds(sliding);
}

TEST(Rollback, AcceptedBranchIsMovedToItsPlaceB04) {
  Target target(TinyTarget());
  const int32_t sequence = target.AddSequence();
  std::vector<int32_t> tokens = TinyPrompt(9);
  const int32_t plain = target.AddSequence();
  std::vector<int32_t> plain_tokens = tokens;
  for (int32_t each : {sequence, plain}) {
    target.Prefill(each, {tokens.begin(), tokens.end() - 1});
  }
  for (int32_t i = 0; i < 30; ++i) target.Step(plain, {}, &plain_tokens);
  while (tokens.size() + 4 < plain_tokens.size()) {
    const auto next = plain_tokens.begin() + tokens.size();
    target.Step(sequence, Bush({next, next + 3}, 3), &tokens);
  }
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), plain_tokens.begin()));
  const int32_t fresh = target.AddSequence();
  target.Prefill(fresh, {tokens.begin(), tokens.end() - 1});
  EXPECT_EQ(target.cache().CommittedBytesForTest(sequence),
            target.cache().CommittedBytesForTest(fresh));
}

}  // namespace
}  // namespace tahmin
