// The rejection rule for trees: several draft tokens for one place, tested in draft order. After a
// rejected child the next one is tested against the residual distribution. With q as each child was
// really drawn this is, in one rule,
//   - sampling without replacement (Chen et al., "Sequoia", arXiv 2402.12374; Li et al., "EAGLE",
//     arXiv 2401.15077): a later sibling's q is without the earlier ones, renormalised;
//   - k independent samples (Miao et al., "SpecInfer", arXiv 2305.09781): the same q for all;
//   - picks that were not sampled (q empty, a point mass): each takes its own p away.
// All are lossless. Where we differ: keyed random numbers, as in rejection_chain.cc, which this
// rule equals on chains.
#include <utility>

#include "accept/acceptance_rule.h"
#include "accept/rejection_math.h"
#include "base/status_macros.h"
#include "sampling/keyed_draw.h"

namespace tahmin {
namespace {

bool IsChain(const DraftTree& draft) {
  for (int32_t i = 0; i < draft.size(); ++i) {
    if (draft.nodes[i].parent != i - 1) return false;
  }
  return true;
}

class RejectionTree final : public AcceptanceRule {
 public:
  explicit RejectionTree(const SamplingOptions& options)
      : builder_(options), chain_(MakeRejectionChain(options)) {}

  absl::StatusOr<AcceptedPath> Accept(const DraftTree& draft, const VerifiedTree& verified,
                                      const AcceptContext& context) override {
    if (IsChain(draft)) return chain_->Accept(draft, verified, context);
    for (int32_t i = 0; i < draft.size(); ++i) {
      TAHMIN_RETURN_IF_ERROR(CheckDrawnFrom(draft.nodes[i].q, draft.nodes[i].token, i));
    }
    AcceptedPath path;
    history_.assign(context.tokens.begin(), context.tokens.end());
    int32_t node = kRoot;
    while (true) {
      TAHMIN_ASSIGN_OR_RETURN(
          const auto candidates,
          builder_.Build(verified.LogitsOf(node), history_, context.valid_vocab_size));
      const Place place = TestChildren(draft, node, ToDistribution(candidates), context);
      path.num_tested += place.last_tested == kRoot ? 0 : 1;
      if (place.accepted == kRoot) {
        const int32_t lane = place.last_tested == kRoot ? draft.size() : place.last_tested;
        path.tokens.push_back(DrawFrom(place.rest, Uniform(context, DrawPurpose::kResidual, lane)));
        return path;
      }
      node = place.accepted;
      path.nodes.push_back(node);
      path.tokens.push_back(draft.nodes[node].token);
      history_.push_back(draft.nodes[node].token);
    }
  }

 private:
  struct Place {
    int32_t accepted = kRoot;     // the child that was accepted
    int32_t last_tested = kRoot;  // kRoot: there are no children
    TokenDistribution rest;       // p, less what the rejected children stood for
  };

  Place TestChildren(const DraftTree& draft, int32_t parent, TokenDistribution p,
                     const AcceptContext& context) const {
    Place place;
    for (int32_t child = parent + 1; child < draft.size(); ++child) {
      const DraftNode& node = draft.nodes[child];
      if (node.parent != parent) continue;
      place.last_tested = child;
      const double u = Uniform(context, DrawPurpose::kAcceptance, child);
      if (u < AcceptanceProbability(p, node.q, node.token)) {
        place.accepted = child;
        return place;
      }
      p = ResidualDistribution(p, node.q, node.token);
    }
    place.rest = std::move(p);
    return place;
  }

  // Lane: the node's index; the bonus token comes after the last node.
  double Uniform(const AcceptContext& context, DrawPurpose purpose, int32_t node) const {
    return StepUniform(context.seed, purpose, context.step_index, static_cast<uint32_t>(node),
                       static_cast<int64_t>(history_.size()));
  }

  CandidateBuilder builder_;
  std::unique_ptr<AcceptanceRule> chain_;
  std::vector<int32_t> history_;  // of the current row: all tokens and the path so far
};

}  // namespace

std::unique_ptr<AcceptanceRule> MakeRejectionTree(const SamplingOptions& options) {
  return std::make_unique<RejectionTree>(options);
}

}  // namespace tahmin
