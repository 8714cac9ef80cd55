// The draft model's keys and values, kept in step with the text: what the target rejected goes,
// what is missing is fed, and a tree that grows is run in passes of several nodes. One sequence,
// the decoding thread only; all memory is reserved before the first token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "draft/draft_model.h"
#include "draft/draft_tree_growth.h"
#include "kv/kv_cache.h"
#include "model/model.h"

namespace tahmin {

class DraftCache {
 public:
  explicit DraftCache(const DraftModelResources& resources);
  absl::Status Reserve();

  // Brings the cache to `tokens`, the root token included: rejected draft tokens (or another turn's
  // text) go, what is missing is fed. After full acceptance of a chain that is two tokens, else
  // one. Afterwards logits() are those behind the last token. false: they do not fit or are no ids
  // of this model, and nothing may be drafted.
  // With more than max_catch_up tokens to feed (0: no bound) it starts over on the last ones, as if
  // the text began there.
  bool CatchUp(std::span<const int32_t> tokens, int32_t max_catch_up);
  // Appends tokens; the same otherwise.
  bool Feed(std::span<const int32_t> tokens);

  // Runs as many of `frontier` (nodes of the growing tree, best first) as one pass takes; cuts it
  // to those, in the order of the rows of logits(). The part of the tree that all of the frontier
  // hangs below is committed as a stem, so a pass has only the nodes themselves and what lies
  // between. false: there is no room.
  bool RunNodes(const DraftTreeGrowth& growth, std::vector<int32_t>& frontier);
  // Fed tokens, then the path down to `node`, which the last pass ran. Valid until the next call.
  std::span<const int32_t> ContextOf(const DraftTreeGrowth& growth, int32_t node);
  // To be called when the tree is grown. The likeliest path of the last pass stays in the cache:
  // with luck the next step need not feed it.
  void FinishTree(const DraftTreeGrowth& growth);

  // [rows of the last pass that wanted them, vocab_size]
  std::span<const float> logits() const { return scratch_->logits(); }
  // All tokens so far; the cache holds the keys and values of those from the window's begin on.
  std::span<const int32_t> fed_tokens() const { return fed_tokens_; }

 private:
  void MoveStem(const DraftTreeGrowth& growth, int32_t node);
  void PlanPass(const DraftTreeGrowth& growth, std::vector<int32_t>& frontier);

  const DraftModelResources resources_;
  const Model& model_;
  KvCache cache_;
  int32_t kv_handle_ = -1;
  std::unique_ptr<ForwardScratch> scratch_;
  std::vector<int32_t> fed_tokens_;
  size_t window_begin_ = 0;  // first token that the cache holds
  std::vector<int32_t> context_;
  // While a tree grows: the stem and what lies above it are committed; row r of the last pass, node
  // pass_nodes_[r], is in tree slot r. Ascending, so parents come first.
  int32_t stem_ = kRoot;
  std::vector<int32_t> pass_nodes_;
};

}  // namespace tahmin
