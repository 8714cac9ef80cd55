// What the target said about a draft tree: one row of logits for the root token and one for each
// node. Views into memory of the verifier, valid until its next pass.
#pragma once

#include <cstdint>
#include <span>

namespace tahmin {

struct VerifiedTree {
  // [1 + number of nodes, vocab_size], row-major float32. Row 0 belongs to the root token, row 1 +
  // i to node i. Raw logits: no penalty, no temperature.
  std::span<const float> logits;
  int32_t vocab_size = 0;

  std::span<const float> LogitsOf(int32_t node) const {  // kRoot (-1) or a node
    return logits.subspan(static_cast<size_t>(node + 1) * vocab_size, vocab_size);
  }
};

}  // namespace tahmin
