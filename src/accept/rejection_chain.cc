// Speculative sampling for chains: Leviathan et al., "Fast inference from transformers via
// speculative decoding" (arXiv 2211.17192, algorithm 1) and Chen et al., "Accelerating large
// language model decoding with speculative sampling" (arXiv 2302.01318, algorithm 2). Where we
// differ: the random numbers are keyed (seed, step, node, position, purpose), so a step can be
// replayed alone, and the draft's own draws (kDraft) can never be those of the test (kAcceptance)
// or of the last token (kResidual).
#include <fmt/format.h>

#include "accept/acceptance_rule.h"
#include "accept/rejection_math.h"
#include "base/status_macros.h"
#include "sampling/keyed_draw.h"

namespace tahmin {
namespace {

// In topological order a chain is exactly: every node hangs on the one before it.
absl::Status CheckChain(const DraftTree& draft) {
  for (int32_t i = 0; i < draft.size(); ++i) {
    if (draft.nodes[i].parent == i - 1) continue;
    return absl::InvalidArgumentError(
        fmt::format("draft: the rejection rule expects a chain (parent {}), found node {} with "
                    "parent {}",
                    i - 1, i, draft.nodes[i].parent));
  }
  return absl::OkStatus();
}

class RejectionChain final : public AcceptanceRule {
 public:
  explicit RejectionChain(const SamplingOptions& options) : builder_(options) {}

  absl::StatusOr<AcceptedPath> Accept(const DraftTree& draft, const VerifiedTree& verified,
                                      const AcceptContext& context) override {
    TAHMIN_RETURN_IF_ERROR(CheckChain(draft));
    for (int32_t i = 0; i < draft.size(); ++i) {
      TAHMIN_RETURN_IF_ERROR(CheckDrawnFrom(draft.nodes[i].q, draft.nodes[i].token, i));
    }
    AcceptedPath path;
    history_.assign(context.tokens.begin(), context.tokens.end());
    for (int32_t i = 0;; ++i) {
      TAHMIN_ASSIGN_OR_RETURN(
          const auto candidates,
          builder_.Build(verified.LogitsOf(i - 1), history_, context.valid_vocab_size));
      const TokenDistribution p = ToDistribution(candidates);
      if (i == draft.size()) {  // all accepted: the bonus token
        path.tokens.push_back(DrawFrom(p, Uniform(context, DrawPurpose::kResidual, i)));
        return path;
      }
      const DraftNode& node = draft.nodes[i];
      ++path.num_tested;
      const double u = Uniform(context, DrawPurpose::kAcceptance, i);
      if (u >= AcceptanceProbability(p, node.q, node.token)) {
        const TokenDistribution residual = ResidualDistribution(p, node.q, node.token);
        path.tokens.push_back(DrawFrom(residual, Uniform(context, DrawPurpose::kResidual, i)));
        return path;
      }
      path.nodes.push_back(i);
      path.tokens.push_back(node.token);
      history_.push_back(node.token);
    }
  }

 private:
  // Lane: the node's index, which in a chain is its depth - 1 (the bonus token comes after the
  // last).
  double Uniform(const AcceptContext& context, DrawPurpose purpose, int32_t node) const {
    return StepUniform(context.seed, purpose, context.step_index, static_cast<uint32_t>(node),
                       static_cast<int64_t>(history_.size()));
  }

  CandidateBuilder builder_;
  std::vector<int32_t> history_;  // of the current row: all tokens and the path so far
};

}  // namespace

std::unique_ptr<AcceptanceRule> MakeRejectionChain(const SamplingOptions& options) {
  return std::make_unique<RejectionChain>(options);
}

}  // namespace tahmin
