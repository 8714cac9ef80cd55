// `draft`: a smaller model of the same family writes the guess (Leviathan et al. 2211.17192).
// Greedy picks and keyed draws are point masses; under the rejection rule the draft samples from
// its own filtered distribution q and records it. Keyed draws use the target's key, so that p and q
// agree often. Keeps its own KV cache in step with the committed tokens: after accepting n of K
// drafted tokens it crops to min(L + K, L + 1 + n) and feeds what is missing (two tokens after full
// acceptance).
//
// Where the budget allows nodes of several children the draft is a tree, grown best-first
// (draft_tree_growth.h), or sampled for the rejection rule (sampled_tree.h). A pass runs several
// nodes at once. The part of the tree that all nodes still to be run hang below is committed to the
// draft's cache, so a pass runs the nodes themselves and what lies between them and that stem; the
// more certain the draft, the fewer rows it takes. Nodes that the target accepts off the committed
// path are fed again with the next root token, in its pass. Measured (Qwen2.5-Coder 0.5B for 1.5B,
// greedy, CPU time of one thread): a tree of 8 nodes, 5 deep and at most 3 wide, takes 1.5 times
// the draft time of a chain of 5.
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
  int32_t max_width = 1;         // most children of a node; above 1 scratch for trees is reserved
  int32_t valid_vocab_size = 0;  // common ids of both vocabularies: no other id is ever proposed
};

// Rows of a draft pass, and those that may want logits: what the memory plan needs to know.
struct DraftScratchShape {
  int32_t rows, logit_rows;
  static DraftScratchShape Of(int32_t prefill_chunk, int32_t max_width);
};

// Fails when KV or scratch cannot be allocated.
absl::StatusOr<std::unique_ptr<Drafter>> MakeDraftModel(const DraftModelResources& resources,
                                                        const SamplingOptions& sampling);

}  // namespace tahmin
