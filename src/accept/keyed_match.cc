// The target draws its own token with its own keyed noise at every position, whatever was drafted;
// a draft only saves the pass when it guessed that draw. So the output does not depend on the
// draft.
#include "accept/acceptance_rule.h"
#include "base/status_macros.h"
#include "sampling/keyed_draw.h"

namespace tahmin {
namespace {

// A node that rides along for its logits is no guess.
bool HasGuess(const DraftTree& draft, int32_t parent) {
  for (int32_t i = parent + 1; i < draft.size(); ++i) {
    if (draft.nodes[i].parent == parent && !draft.nodes[i].is_probe) return true;
  }
  return false;
}

class KeyedMatch final : public AcceptanceRule {
 public:
  explicit KeyedMatch(const SamplingOptions& options) : builder_(options) {}

  absl::StatusOr<AcceptedPath> Accept(const DraftTree& draft, const VerifiedTree& verified,
                                      const AcceptContext& context) override {
    AcceptedPath path;
    history_.assign(context.tokens.begin(), context.tokens.end());
    int32_t node = kRoot;
    while (true) {
      TAHMIN_ASSIGN_OR_RETURN(
          const auto candidates,
          builder_.Build(verified.LogitsOf(node), history_, context.valid_vocab_size));
      const auto position = static_cast<int64_t>(history_.size());
      const int32_t token = KeyedDraw(candidates, context.seed, position);
      path.tokens.push_back(token);
      const int32_t child = draft.FindChild(node, token);
      if (child >= 0 || HasGuess(draft, node)) ++path.num_tested;
      if (child < 0) return path;
      node = child;
      path.nodes.push_back(node);
      history_.push_back(token);
    }
  }

 private:
  CandidateBuilder builder_;
  std::vector<int32_t> history_;  // of the current row: all tokens and the path so far
};

}  // namespace

std::unique_ptr<AcceptanceRule> MakeKeyedMatch(const SamplingOptions& options) {
  return std::make_unique<KeyedMatch>(options);
}

}  // namespace tahmin
