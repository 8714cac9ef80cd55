// An output head in two passes: one over the whole vocabulary in two bits a weight picks
// candidates, then the rows of those alone are multiplied exactly, straight from the file. All
// other tokens get the logit -infinity. Immutable and shared; what a pass needs is in its scratch.
// What else was tried as a first pass, and how often it missed the best token:
// docs/cheap_drafts.md.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/aligned_buffer.h"
#include "gguf/gguf_file.h"
#include "kernels/sliced_pool.h"
#include "model/two_bit_rows.h"
#include "model/weight_approximation.h"

namespace tahmin {

struct ForwardPass;

struct CoarseHead {
  TwoBitRows coarse_rows;                // [vocab_size, embedding_length]
  const GgufTensor* all_rows = nullptr;  // the same, exact, inside the file
  int32_t num_candidates = 0;
};

// all_rows: at most TwoBitRows::kMostColumns columns. The pool hears which of them are not read
// again while the head is built.
absl::StatusOr<CoarseHead> BuildCoarseHead(const GgufTensor& all_rows, const HeadShape& shape,
                                           const kernels::SlicedPool& pool);
size_t CoarseHeadBytes(const GgufTensor& all_rows);

struct CoarseScratch {
  TwoBitRows::Input input;
  AlignedBuffer fine_rows;               // [num_threads, embedding_length] one row of W at a time
  std::vector<float> peaks, peaks_copy;  // [ceil(vocab_size / 64)]
  std::vector<int32_t> candidates;       // capacity for vocab_size, while they are chosen
  std::vector<float> fine_logits;        // [num_candidates]
};

// Sets scratch.candidates to the indices of the `count` largest values of a row, in no order; NaNs
// never count, so there may be fewer. count >= 1.
void PickLargest(std::span<const float> row, int32_t count, CoarseScratch& scratch);

void ComputeCoarseLogits(const ForwardPass& pass);

}  // namespace tahmin
