// The target of a recorded text: the rows of a verify pass, out of the record. What it would say
// behind a token that the text does not go on with is not recorded, so only the rows of the
// accepted path are known.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bench/control/text_record.h"
#include "draft/drafter.h"
#include "step/draft_tree.h"
#include "step/verified_tree.h"

namespace tahmin::bench {

class RecordedTarget {
 public:
  explicit RecordedTarget(int32_t vocab_size) : vocab_size_(vocab_size) {}

  // The rows of a tree that hangs on output token `position` of the text: log probabilities, what
  // the recorded tokens leave spread evenly over all others. Rows of nodes off the text hold
  // anything: an acceptance rule at temperature 0 does not look at them. The row behind the last
  // recorded token is all zeros. Valid until the next call.
  VerifiedTree Verify(const TextRecord& text, size_t position, const DraftTree& tree);

 private:
  void FillRow(const TextRecord& text, size_t position, int32_t node);

  const int32_t vocab_size_;
  std::vector<float> logits_;  // [rows, vocab_size]
};

// A drafter that is shown of what the target said only the rows of the accepted path: its other
// nodes look to it as if they had not been submitted. `recycling` knows a little less for it than
// it would in a real run.
std::unique_ptr<Drafter> ShowKnownRowsOnly(std::unique_ptr<Drafter> drafter);

}  // namespace tahmin::bench
