#include "verify/verifier.h"

#include "base/status_macros.h"
#include "verify/tree_layout.h"

namespace tahmin {

absl::StatusOr<VerifiedTree> Verifier::Verify(int32_t sequence, int32_t root_token,
                                              const DraftTree& tree) {
  TokenBatch batch;
  AppendTree(sequence, root_token, tree, &batch);
  TAHMIN_RETURN_IF_ERROR(cache_.Reserve(sequence, 1 + tree.size()));
  model_.Forward(batch, cache_, scratch_, pool_);
  return VerifiedTree{.logits = scratch_.logits(), .vocab_size = model_.config().vocab_size};
}

}  // namespace tahmin
