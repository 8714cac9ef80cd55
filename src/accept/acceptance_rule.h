// Decides which drafted tokens the target keeps. Pure maths on logits: no model, no cache, no text.
// Both rules are lossless (docs/exactness.md). One object per sequence; not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "sampling/candidates.h"
#include "step/accepted_path.h"
#include "step/draft_tree.h"
#include "step/verified_tree.h"
#include "tahmin/options.h"

namespace tahmin {

struct AcceptContext {
  std::span<const int32_t> tokens;  // all tokens so far, root token last
  uint64_t seed = 0;
  int64_t step_index = 0;
  int32_t valid_vocab_size = 0;  // ids the tokenizer knows; the logits row may be longer
};

class AcceptanceRule {
 public:
  virtual ~AcceptanceRule() = default;

  // Walks down from the root. Penalties see the path's own tokens, row by row; rows below the first
  // rejection are not sampled. Errors are those of CandidateBuilder::Build.
  virtual absl::StatusOr<AcceptedPath> Accept(const DraftTree& draft, const VerifiedTree& verified,
                                              const AcceptContext& context) = 0;
};

// keyed_match.cc: descend while the target's own keyed draw is a child of the node, else emit it.
std::unique_ptr<AcceptanceRule> MakeKeyedMatch(const SamplingOptions& options);

// rejection_chain.cc: Leviathan et al. 2211.17192 / Chen et al. 2302.01318 for chains. A tree with
// a node of two children is INVALID_ARGUMENT.
std::unique_ptr<AcceptanceRule> MakeRejectionChain(const SamplingOptions& options);

// rejection_tree.cc: the same for any tree; siblings are tested in draft order, and q of a sampled
// node is the distribution that it was drawn from, earlier siblings taken out where it was drawn
// without replacement.
std::unique_ptr<AcceptanceRule> MakeRejectionTree(const SamplingOptions& options);

std::unique_ptr<AcceptanceRule> MakeAcceptanceRule(AcceptanceRuleKind kind,
                                                   const SamplingOptions& options);

}  // namespace tahmin
