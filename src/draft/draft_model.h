// `draft`: a smaller model of the same family writes the guess (Leviathan et al. 2211.17192).
// Greedy picks and keyed draws are point masses; under the rejection rule the draft samples from
// its own filtered distribution q and records it. Keyed draws use the target's key, so that p and q
// agree often. Keeps its own KV cache in step with the committed tokens: after accepting n of K
// drafted tokens it crops to min(L + K, L + 1 + n) and feeds what is missing (two tokens after full
// acceptance).
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "draft/drafter.h"
#include "model/model.h"

namespace tahmin {

struct DraftModelResources {
  const Model* model = nullptr;
  ThreadPool* pool = nullptr;
  KvType kv_type = KvType::kF16;
  int64_t context_tokens = 0;  // KV slots of the draft; when full it stops drafting (empty trees)
  int32_t prefill_chunk = 512;
  int32_t draft_max = 16;        // most tokens a step
  int32_t valid_vocab_size = 0;  // common ids of both vocabularies: no other id is ever proposed
};

// Fails when KV or scratch cannot be allocated.
absl::StatusOr<std::unique_ptr<Drafter>> MakeDraftModel(const DraftModelResources& resources,
                                                        const SamplingOptions& sampling);

}  // namespace tahmin
