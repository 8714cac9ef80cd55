// What every pass of one request works with: views of the engine's parts, set up by Generate and
// valid for that request. Decoding thread only.
#pragma once

#include <cstdint>

#include "base/stopwatch.h"
#include "base/thread_pool.h"
#include "kv/kv_cache.h"
#include "model/model.h"
#include "tahmin/engine.h"
#include "tokenizer/tokenizer.h"

namespace tahmin {

struct StepContext {
  const Model& model;
  const Tokenizer& tokenizer;
  KvCache& cache;
  ForwardScratch& scratch;
  ThreadPool& pool;
  int64_t context_tokens = 0;
  int64_t draft_context_tokens = 0;  // 0: the drafter has no context of its own
  int32_t prefill_chunk = 0;
  int32_t valid_vocab_size = 0;  // ids that may be drawn: known to the tokenizer and to the model
  const TokenCallback& on_token;
  const PrefillProgress& on_prefill;
  const std::atomic<bool>* cancel = nullptr;
  Stopwatch since_request;
  double prefill_end_ms = 0;  // on since_request, when the target's prefill was done

  bool IsCancelled() const { return cancel != nullptr && cancel->load(std::memory_order_relaxed); }
};

// Tree slots of a pass that is under way: given back unless they were committed, so that any early
// return leaves the cache as it was before the pass.
class PendingSlots {
 public:
  PendingSlots(KvCache& cache, int32_t sequence) : cache_(cache), sequence_(sequence) {}
  ~PendingSlots() {
    if (cache_.Reserved(sequence_) > 0) cache_.Rollback(sequence_);
  }
  PendingSlots(const PendingSlots&) = delete;
  PendingSlots& operator=(const PendingSlots&) = delete;

 private:
  KvCache& cache_;
  int32_t sequence_;
};

}  // namespace tahmin
