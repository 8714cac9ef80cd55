// An output head cut to the tokens that are likely to be needed: the lowest ids (in byte-level BPE
// an id is the rank of a merge, so the lowest ones are the most frequent), the control and
// user-defined tokens, and whatever a sequence itself has shown (its prompt and its text). All
// other tokens get the logit -infinity. Weights are immutable and shared; what a sequence has shown
// is kept in its scratch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/aligned_buffer.h"
#include "base/thread_pool.h"
#include "gguf/gguf_file.h"
#include "kernels/packed_matrix.h"
#include "model/weight_approximation.h"

namespace tahmin {

struct ForwardPass;

// The ids that the head always holds, ascending.
std::vector<int32_t> FrequentTokens(const GgufFile& file, int32_t num_tokens, int32_t vocab_size);

struct FrequentHead {
  std::vector<int32_t> tokens;           // ascending
  std::vector<uint8_t> is_kept;          // [vocab_size]
  kernels::PackedMatrix matrix;          // [tokens, embedding_length]
  std::vector<float> bias;               // [tokens], or empty
  const GgufTensor* all_rows = nullptr;  // the whole output matrix, inside the file
  bool to_four_bits = false;
};

// `bias` is the whole head's, or empty. The pool hears which rows are not read again while the head
// is built.
absl::StatusOr<FrequentHead> BuildFrequentHead(const GgufFile& file, const GgufTensor& all_rows,
                                               std::span<const float> bias, const HeadShape& shape,
                                               bool to_four_bits, const kernels::SlicedPool& pool);

// What one sequence adds to the head, and the logits of one pass before they are spread.
struct FrequentScratch {
  AlignedBuffer logits;              // [max_logit_rows, tokens of the head]
  std::vector<uint8_t> is_own;       // [vocab_size]
  std::vector<int32_t> own_tokens;   // none of them in the head
  kernels::PackedMatrix own_matrix;  // [own_tokens, embedding_length]
  std::vector<float> own_bias;       // [own_tokens], or empty
  std::vector<float> own_logits;     // [max_logit_rows, own_tokens]
};

// Adds to the scratch those tokens that the head does not hold. On failure (no memory) the head
// stays as it was.
absl::Status AddOwnTokens(const FrequentHead& head, std::span<const float> bias,
                          std::span<const int32_t> tokens, int32_t max_logit_rows,
                          FrequentScratch& scratch, ThreadPool& pool);

void ComputeFrequentLogits(const ForwardPass& pass);

}  // namespace tahmin
