// A tiny model with a cache and scratch, as the model tests drive it.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/philox.h"
#include "base/thread_pool.h"
#include "gguf/gguf_file.h"
#include "kv/kv_cache.h"
#include "model/model.h"
#include "step/token_batch.h"
#include "tests/data/tiny_model.h"

namespace tahmin {

using Tokens = std::vector<int32_t>;

inline Tokens RandomTokens(int32_t count, uint32_t vocab_size, uint64_t seed) {
  Tokens tokens(count);
  for (int32_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<int32_t>(Philox4x32(seed, {{static_cast<uint32_t>(i), 0, 0, 0}})[0] %
                                     vocab_size);
  }
  return tokens;
}

// The bytes of a tiny model must outlive it.
class TinyModel {
 public:
  explicit TinyModel(const TinyModelOptions& options) : bytes_(TinyModelBytes(options)) {
    ThreadPool pool(2);
    absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Parse(bytes_, "tiny");
    if (!file.ok()) throw std::runtime_error(file.status().ToString());
    absl::StatusOr<std::unique_ptr<Model>> model = Model::Load(*std::move(file), {}, pool);
    if (!model.ok()) throw std::runtime_error(model.status().ToString());
    model_ = *std::move(model);
  }
  const Model& operator*() const { return *model_; }
  const Model* operator->() const { return model_.get(); }

 private:
  std::vector<uint8_t> bytes_;
  std::unique_ptr<Model> model_;
};

// One driver: pool, cache and scratch for one model.
class ModelDriver {
 public:
  static constexpr int32_t kMaxRows = 128;

  explicit ModelDriver(const Model& model, int num_threads = 2, KvType type = KvType::kF16)
      : model_(model), pool_(num_threads), cache_(model.MakeKvShape(type)) {
    scratch_ = *model.CreateScratch(kMaxRows, kMaxRows, pool_);
  }

  int32_t AddSequence(int64_t num_slots = 512) { return *cache_.AddSequence(num_slots); }
  KvCache& cache() { return cache_; }
  ForwardScratch& scratch() { return *scratch_; }
  ThreadPool& pool() { return pool_; }

  // [rows that want logits, vocab_size]. The slots must be reserved.
  std::vector<float> Forward(const TokenBatch& batch) {
    model_.Forward(batch, cache_, *scratch_, pool_);
    const std::span<const float> logits = scratch_->logits();
    return {logits.begin(), logits.end()};
  }

  // Feeds the tokens as a chain, `rows` at a time, and commits them. Logits of all of them.
  std::vector<float> FeedChain(int32_t sequence, std::span<const int32_t> tokens, int32_t rows,
                               bool all_logits = true) {
    std::vector<float> logits;
    for (size_t start = 0; start < tokens.size(); start += rows) {
      const auto part = tokens.subspan(start, std::min<size_t>(rows, tokens.size() - start));
      TokenBatch batch;
      batch.AppendChain(sequence, part.data(), static_cast<int32_t>(part.size()), all_logits);
      EXPECT_TRUE(cache_.Reserve(sequence, static_cast<int64_t>(part.size())).ok());
      const std::vector<float> rows_logits = Forward(batch);
      logits.insert(logits.end(), rows_logits.begin(), rows_logits.end());
      std::vector<int32_t> path(part.size());
      for (size_t i = 0; i < path.size(); ++i) path[i] = static_cast<int32_t>(i);
      cache_.Commit(sequence, path);
    }
    return logits;
  }

 private:
  const Model& model_;
  ThreadPool pool_;
  KvCache cache_;
  std::unique_ptr<ForwardScratch> scratch_;
};

// Bit identity, with the place of the first difference.
inline ::testing::AssertionResult SameBits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) {
    return ::testing::AssertionFailure() << a.size() << " against " << b.size() << " values";
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) == 0) continue;
    return ::testing::AssertionFailure() << "value " << i << ": " << a[i] << " against " << b[i];
  }
  return ::testing::AssertionSuccess();
}

}  // namespace tahmin
