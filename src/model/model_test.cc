// Batch invariance of Forward: the bits of a row depend on its tokens alone, whatever else is in
// the batch.
#include "model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/model_fixture.h"

namespace tahmin {
namespace {

struct Variant {
  const char* name;
  TinyModelOptions options;
};

std::vector<Variant> Variants() {
  std::vector<Variant> variants;
  variants.push_back({"LlamaQ8", {}});
  TinyModelOptions mistral;
  mistral.weight_type = TensorType::kQ4_1;
  mistral.sliding_window = 64;
  variants.push_back({"MistralWindow", mistral});
  TinyModelOptions qwen2;
  qwen2.architecture = "qwen2";
  qwen2.embedding_length = 256;
  qwen2.feed_forward_length = 512;
  qwen2.head_dim = 64;
  qwen2.weight_type = TensorType::kQ4_K;
  qwen2.embedding_type = TensorType::kQ6_K;
  variants.push_back({"Qwen2SuperBlocks", qwen2});
  TinyModelOptions qwen3;
  qwen3.architecture = "qwen3";
  qwen3.head_dim = 32;
  qwen3.weight_type = TensorType::kQ5_0;
  qwen3.tied_embedding = false;
  variants.push_back({"Qwen3", qwen3});
  TinyModelOptions floats;
  floats.weight_type = TensorType::kF16;
  floats.rope_scaling = "yarn";
  floats.rope_freqs = true;
  variants.push_back({"LlamaFloat", floats});
  return variants;
}

class ForwardPassBits : public ::testing::TestWithParam<Variant> {
 protected:
  ForwardPassBits() : model_(GetParam().options), vocab_size_(model_->config().vocab_size) {}
  std::span<const float> Row(const std::vector<float>& logits, size_t row) const {
    return std::span(logits).subspan(row * vocab_size_, vocab_size_);
  }
  TinyModel model_;
  size_t vocab_size_;
};

TEST_P(ForwardPassBits, DoNotDependOnRowsAtATime) {
  const Tokens tokens = RandomTokens(101, 300, 7);
  ModelDriver driver(*model_);
  const int32_t single = driver.AddSequence();
  const std::vector<float> expected = driver.FeedChain(single, tokens, 1);
  EXPECT_EQ(expected.size(), tokens.size() * vocab_size_);
  for (const int32_t rows : {2, 3, 4, 5, 8, 16, 64, 101}) {
    const int32_t sequence = driver.AddSequence();
    EXPECT_TRUE(SameBits(driver.FeedChain(sequence, tokens, rows), expected)) << rows << " rows";
    EXPECT_EQ(driver.cache().CommittedBytesForTest(sequence),
              driver.cache().CommittedBytesForTest(single));
    driver.cache().RemoveSequence(sequence);
  }
}

TEST_P(ForwardPassBits, DoNotDependOnThreads) {
  const Tokens tokens = RandomTokens(40, 300, 8);
  std::vector<float> expected;
  for (const int num_threads : {1, 2, 3, 5}) {
    ModelDriver driver(*model_, num_threads);
    std::vector<float> logits = driver.FeedChain(driver.AddSequence(), tokens, 16);
    if (num_threads == 1) expected = logits;
    EXPECT_TRUE(SameBits(logits, expected)) << num_threads << " threads";
  }
}

TEST_P(ForwardPassBits, DoNotDependOnWhichRowsWantLogits) {
  const Tokens tokens = RandomTokens(37, 300, 9);
  ModelDriver driver(*model_);
  const int32_t all = driver.AddSequence(), last = driver.AddSequence();
  const std::vector<float> expected = driver.FeedChain(all, tokens, 37, true);
  const std::vector<float> logits = driver.FeedChain(last, tokens, 37, false);
  ASSERT_EQ(logits.size(), vocab_size_);
  EXPECT_TRUE(SameBits(logits, Row(expected, 36)));
  EXPECT_EQ(driver.cache().CommittedBytesForTest(all), driver.cache().CommittedBytesForTest(last));

  // Some rows in the middle, then none at all.
  const int32_t some = driver.AddSequence(), none = driver.AddSequence();
  TokenBatch batch;
  batch.AppendChain(some, tokens.data(), 37, false);
  batch.rows[3].wants_logits = batch.rows[20].wants_logits = true;
  ASSERT_TRUE(driver.cache().Reserve(some, 37).ok());
  const std::vector<float> three = driver.Forward(batch);
  ASSERT_EQ(three.size(), 3 * vocab_size_);
  EXPECT_TRUE(SameBits(Row(three, 0), Row(expected, 3)));
  EXPECT_TRUE(SameBits(Row(three, 1), Row(expected, 20)));
  EXPECT_TRUE(SameBits(Row(three, 2), Row(expected, 36)));
  TokenBatch silent;
  silent.AppendChain(none, tokens.data(), 37, false);
  silent.rows.back().wants_logits = false;
  ASSERT_TRUE(driver.cache().Reserve(none, 37).ok());
  EXPECT_TRUE(driver.Forward(silent).empty());
  std::vector<int32_t> path(37);
  for (int32_t i = 0; i < 37; ++i) path[i] = i;
  driver.cache().Commit(none, path);
  EXPECT_EQ(driver.cache().CommittedBytesForTest(all), driver.cache().CommittedBytesForTest(none));
}

TEST_P(ForwardPassBits, DoNotDependOnOtherSequencesInTheBatch) {
  const Tokens first = RandomTokens(45, 300, 10), second = RandomTokens(70, 300, 11);
  ModelDriver driver(*model_);
  const int32_t alone_1 = driver.AddSequence(), alone_2 = driver.AddSequence(300);
  const std::vector<float> expected_1 = driver.FeedChain(alone_1, first, 1);
  const std::vector<float> expected_2 = driver.FeedChain(alone_2, second, 1);

  // Different committed lengths, rows of both interleaved.
  const int32_t mixed_1 = driver.AddSequence(300), mixed_2 = driver.AddSequence();
  driver.FeedChain(mixed_1, std::span(first).first(20), 20);
  driver.FeedChain(mixed_2, std::span(second).first(45), 45);
  TokenBatch batch;
  for (int32_t i = 0; i < 25; ++i) {
    const int32_t parent = i == 0 ? -1 : 2 * (i - 1);
    batch.rows.push_back({first[20 + i], mixed_1, i, parent, i, true});
    batch.rows.push_back({second[45 + i], mixed_2, i, i == 0 ? -1 : parent + 1, i, true});
  }
  ASSERT_TRUE(driver.cache().Reserve(mixed_1, 25).ok());
  ASSERT_TRUE(driver.cache().Reserve(mixed_2, 25).ok());
  const std::vector<float> logits = driver.Forward(batch);
  for (int32_t i = 0; i < 25; ++i) {
    EXPECT_TRUE(SameBits(Row(logits, 2 * i), Row(expected_1, 20 + i))) << i;
    EXPECT_TRUE(SameBits(Row(logits, 2 * i + 1), Row(expected_2, 45 + i))) << i;
  }
}

// A random tree of `size` nodes on a root row; parents[i] < i, -1 only for the root.
std::vector<int32_t> RandomParents(int32_t size, uint64_t seed) {
  std::vector<int32_t> parents = {-1};
  for (int32_t i = 1; i < size; ++i) {
    // Half of the nodes continue the last one: long paths as well as wide ones.
    const auto words = Philox4x32(seed, {{static_cast<uint32_t>(i), 1, 0, 0}});
    parents.push_back(words[0] % 2 == 0 ? i - 1 : static_cast<int32_t>(words[1] % i));
  }
  return parents;
}

std::vector<int32_t> PathTo(int32_t node, const std::vector<int32_t>& parents) {
  std::vector<int32_t> path;
  for (; node >= 0; node = parents[node]) path.push_back(node);
  std::reverse(path.begin(), path.end());
  return path;
}

TEST_P(ForwardPassBits, OfATreeNodeEqualItsPathAsAChainB04) {
  ModelDriver driver(*model_);
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Tokens prefix = RandomTokens(static_cast<int32_t>(13 * seed), 300, seed);
    const Tokens nodes = RandomTokens(24, 300, 100 + seed);
    const std::vector<int32_t> parents = RandomParents(24, seed);
    const int32_t sequence = driver.AddSequence();
    driver.FeedChain(sequence, prefix, 64);
    TokenBatch batch;
    for (int32_t i = 0; i < 24; ++i) {
      const int32_t depth = i == 0 ? 0 : batch.rows[parents[i]].depth + 1;
      batch.rows.push_back({nodes[i], sequence, i, parents[i], depth, true});
    }
    ASSERT_TRUE(driver.cache().Reserve(sequence, 24).ok());
    const std::vector<float> tree_logits = driver.Forward(batch);

    std::vector<uint8_t> committed_chain;
    for (int32_t leaf = 0; leaf < 24; ++leaf) {
      const std::vector<int32_t> path = PathTo(leaf, parents);
      Tokens chain;
      for (const int32_t node : path) chain.push_back(nodes[node]);
      const int32_t alone = driver.AddSequence();
      driver.FeedChain(alone, prefix, 1);
      const std::vector<float> logits = driver.FeedChain(alone, chain, 1);
      for (size_t i = 0; i < path.size(); ++i) {
        EXPECT_TRUE(SameBits(Row(tree_logits, path[i]), Row(logits, i)))
            << "seed " << seed << ", leaf " << leaf << ", depth " << i;
      }
      committed_chain = driver.cache().CommittedBytesForTest(alone);
      driver.cache().RemoveSequence(alone);
    }
    // What a commit leaves behind is what the chain left behind.
    driver.cache().Commit(sequence, PathTo(23, parents));
    EXPECT_EQ(driver.cache().CommittedBytesForTest(sequence), committed_chain);
    driver.cache().RemoveSequence(sequence);
  }
}

// Rejected tokens leave no trace, in sliding windows either.
TEST_P(ForwardPassBits, AfterRolledBackJunkEqualAFreshPrefillB26) {
  ModelDriver driver(*model_);
  const Tokens tokens = RandomTokens(200, 300, 12);
  const Tokens junk = RandomTokens(1000, 300, 13);
  const int32_t spoiled = driver.AddSequence(), clean = driver.AddSequence();
  int32_t length = 0;
  for (int32_t round = 0; length < 200; ++round) {
    // A root token, up to 7 junk tokens; 1 to 3 tokens of the real text are kept.
    const int32_t num_kept = std::min<int32_t>(1 + round % 3, 200 - length);
    const int32_t num_junk = round % 8;
    Tokens chain(tokens.begin() + length, tokens.begin() + length + num_kept);
    for (int32_t i = 0; i < num_junk; ++i) chain.push_back(junk[(round * 7 + i) % 1000]);
    TokenBatch batch;
    batch.AppendChain(spoiled, chain.data(), static_cast<int32_t>(chain.size()), true);
    ASSERT_TRUE(driver.cache().Reserve(spoiled, static_cast<int64_t>(chain.size())).ok());
    if (round % 5 == 4) {  // everything is thrown away first, then done again
      driver.Forward(batch);
      driver.cache().Rollback(spoiled);
      ASSERT_TRUE(driver.cache().Reserve(spoiled, static_cast<int64_t>(chain.size())).ok());
    }
    const std::vector<float> logits = driver.Forward(batch);
    std::vector<int32_t> path(num_kept);
    for (int32_t i = 0; i < num_kept; ++i) path[i] = i;
    driver.cache().Commit(spoiled, path);
    const std::vector<float> expected =
        driver.FeedChain(clean, std::span(tokens).subspan(length, num_kept), 1);
    ASSERT_TRUE(SameBits(std::span(logits).first(expected.size()), expected)) << round;
    ASSERT_EQ(driver.cache().CommittedBytesForTest(spoiled),
              driver.cache().CommittedBytesForTest(clean));
    length += num_kept;
  }
  const int32_t fresh = driver.AddSequence();
  driver.FeedChain(fresh, tokens, 64);
  EXPECT_EQ(driver.cache().CommittedBytesForTest(spoiled),
            driver.cache().CommittedBytesForTest(fresh));
}

TEST_P(ForwardPassBits, AreDeterministicWithFloatCache) {
  const Tokens tokens = RandomTokens(33, 300, 14);
  ModelDriver half(*model_), single(*model_, 2, KvType::kF32);
  const std::vector<float> one = single.FeedChain(single.AddSequence(), tokens, 1);
  EXPECT_TRUE(SameBits(single.FeedChain(single.AddSequence(), tokens, 33), one));
  // The cache precision matters: otherwise this test compared nothing.
  EXPECT_FALSE(SameBits(half.FeedChain(half.AddSequence(), tokens, 33), one));
}

INSTANTIATE_TEST_SUITE_P(Tiny, ForwardPassBits, ::testing::ValuesIn(Variants()),
                         [](const auto& info) { return info.param.name; });

// The window is honoured: what lies before it cannot change a row, what lies inside can. With two
// layers a token reaches back two windows.
TEST(SlidingWindow, ForgetsWhatLiesOutside) {
  TinyModelOptions options;
  options.sliding_window = 16;
  const TinyModel model(options);
  const size_t vocab_size = model->config().vocab_size;
  ModelDriver driver(*model);
  Tokens tokens = RandomTokens(60, 300, 15);
  auto last_row = [&] {
    const std::vector<float> logits = driver.FeedChain(driver.AddSequence(), tokens, 64);
    return std::vector<float>(logits.end() - vocab_size, logits.end());
  };
  const std::vector<float> expected = last_row();
  const size_t reach = 2 * (16 - 1);
  tokens[59 - reach - 1] ^= 1;
  EXPECT_TRUE(SameBits(last_row(), expected));
  tokens[59 - reach] ^= 1;
  EXPECT_FALSE(SameBits(last_row(), expected));
}

}  // namespace
}  // namespace tahmin
