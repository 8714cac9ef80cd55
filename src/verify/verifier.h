// The target's pass over the root token and its draft tree. Reserves the tree slots in the KV
// cache, runs Forward and gives the logits of every row. The caller then commits or rolls back the
// slots.
#pragma once

#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "kv/kv_cache.h"
#include "model/model.h"
#include "step/draft_tree.h"
#include "step/verified_tree.h"

namespace tahmin {

class Verifier {
 public:
  Verifier(const Model& model, KvCache& cache, ForwardScratch& scratch, ThreadPool& pool)
      : model_(model), cache_(cache), scratch_(scratch), pool_(pool) {}

  // RESOURCE_EXHAUSTED when the tree does not fit into the sequence's slots; nothing changes then.
  absl::StatusOr<VerifiedTree> Verify(int32_t sequence, int32_t root_token, const DraftTree& tree);

 private:
  const Model& model_;
  KvCache& cache_;
  ForwardScratch& scratch_;
  ThreadPool& pool_;
};

}  // namespace tahmin
