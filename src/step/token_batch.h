// What the model is run on: rows of one Forward pass. Prefill is a chain, plain decoding one row,
// verification a tree; rows of several sequences may share a batch.
#pragma once

#include <cstdint>
#include <vector>

namespace tahmin {

struct BatchRow {
  int32_t token = 0;
  int32_t sequence = 0;     // handle given by KvCache::AddSequence
  int32_t tree_slot = 0;    // index among this sequence's reserved slots: 0, 1, 2, ... in row order
  int32_t parent_row = -1;  // row of the batch that comes just before this token; -1: the
                            // committed prefix. A parent precedes its children in the batch.
  int32_t depth = 0;        // 0 when parent_row is -1, else the parent's depth + 1.
                            // Position = committed length of the sequence + depth.
  bool wants_logits = false;
};

struct TokenBatch {
  std::vector<BatchRow> rows;

  // Appends tokens[0..num_tokens) as a chain on the committed prefix, tree slots 0, 1, 2, ...;
  // logits for every row, or for the last one only.
  void AppendChain(int32_t sequence, const int32_t* tokens, int32_t num_tokens, bool all_logits);
};

}  // namespace tahmin
