#include "step/token_batch.h"

namespace tahmin {

void TokenBatch::AppendChain(int32_t sequence, const int32_t* tokens, int32_t num_tokens,
                             bool all_logits) {
  const int32_t first_row = static_cast<int32_t>(rows.size());
  for (int32_t i = 0; i < num_tokens; ++i) {
    rows.push_back({.token = tokens[i],
                    .sequence = sequence,
                    .tree_slot = i,
                    .parent_row = i == 0 ? -1 : first_row + i - 1,
                    .depth = i,
                    .wants_logits = all_logits || i == num_tokens - 1});
  }
}

}  // namespace tahmin
