// Leviathan, Kalman, Matias, "Fast inference from transformers via speculative decoding", arXiv
// 2211.17192, algorithm 1, the drafting half. Where we differ: under the keyed rule the draft draws
// with the target's own key.
#include "draft/draft_model.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/philox.h"
#include "base/status_macros.h"
#include "draft/draft_cache.h"
#include "draft/draft_choices.h"
#include "draft/draft_tree_growth.h"
#include "draft/sampled_tree.h"
#include "sampling/candidates.h"
#include "sampling/keyed_draw.h"

namespace tahmin {
namespace {

class DraftModel : public Drafter {
 public:
  DraftModel(const DraftModelResources& resources, const SamplingOptions& sampling)
      : resources_(resources), cache_(resources), builder_(sampling), choices_(sampling) {}

  absl::Status Reserve() { return cache_.Reserve(); }

  std::string_view Name() const override { return "draft"; }
  void Begin(const SequenceView& sequence) override;
  DraftTree Draft(const SequenceView& sequence, const DraftBudget& budget) override;
  // The next Draft compares what was fed with what was committed; that is all there is to observe.
  void Observe(const SequenceView&, const DraftTree&, const VerifiedTree&, const AcceptedPath&,
               std::span<const int32_t>) override {}

 private:
  DraftBudget FitToCache(const SequenceView& sequence, DraftBudget budget) const;
  DraftTree DraftChain(const SequenceView& sequence, const DraftBudget& budget);
  absl::StatusOr<std::vector<DraftNode>> DrawNodes(const SequenceView& sequence, int32_t depth,
                                                   int32_t spare_choices);
  DraftTree GrowTree(const SequenceView& sequence, const DraftBudget& budget);
  DraftTree SampleTree(const SequenceView& sequence, const DraftBudget& budget);
  bool Sample(const SequenceView& sequence, int32_t node, std::span<const float> logits,
              SampledTree& tree);
  bool ExpandFrontier(const SequenceView& sequence, std::span<const int32_t> frontier,
                      int32_t max_width, DraftTreeGrowth& growth);

  const DraftModelResources resources_;
  DraftCache cache_;
  CandidateBuilder builder_;
  DraftChoices choices_;
};

void DraftModel::Begin(const SequenceView& sequence) {
  // Keys and values of an earlier turn stay: CatchUp keeps the common prefix.
  builder_ = CandidateBuilder(*sequence.sampling);
  choices_ = DraftChoices(*sequence.sampling);
}

// What the budget and the cache allow. Depends on lengths only, never on a drawn token.
DraftBudget DraftModel::FitToCache(const SequenceView& sequence, DraftBudget budget) const {
  // All tokens so far are fed, then every draft token of a path but the last.
  const int64_t room = resources_.context_tokens - static_cast<int64_t>(sequence.tokens.size()) + 1;
  const int64_t depth = std::min<int64_t>(std::min(budget.max_tokens, budget.max_depth), room);
  budget.max_depth = static_cast<int32_t>(std::max<int64_t>(0, depth));
  budget.max_width = std::min(budget.max_width, resources_.max_width);
  return budget;
}

DraftTree DraftModel::Draft(const SequenceView& sequence, const DraftBudget& budget) {
  const DraftBudget fitting = FitToCache(sequence, budget);
  if (fitting.max_depth == 0 || !cache_.CatchUp(sequence.tokens, budget.max_catch_up)) return {};
  if (fitting.max_width == 1) return DraftChain(sequence, fitting);
  const bool is_sampled =
      sequence.acceptance == AcceptanceRuleKind::kRejection && sequence.sampling->temperature > 0;
  return is_sampled ? SampleTree(sequence, fitting) : GrowTree(sequence, fitting);
}

// The chain's next node, from the logits behind the fed tokens, and the choices that it was
// preferred to, which hang beside it. depth: of the chain so far.
absl::StatusOr<std::vector<DraftNode>> DraftModel::DrawNodes(const SequenceView& sequence,
                                                             int32_t depth, int32_t spare_choices) {
  const std::span<const int32_t> fed_tokens = cache_.fed_tokens();
  if (sequence.acceptance == AcceptanceRuleKind::kRejection) {
    TAHMIN_ASSIGN_OR_RETURN(
        const std::span<const Candidate> candidates,
        builder_.Build(cache_.logits(), fed_tokens, resources_.valid_vocab_size));
    if (candidates.size() > 1) {
      DraftNode node{.q = ToDistribution(candidates)};
      const double uniform =
          StepUniform(sequence.seed, DrawPurpose::kDraft, sequence.step_index,
                      static_cast<uint32_t>(depth), static_cast<int64_t>(fed_tokens.size()));
      node.token = DrawFrom(node.q, uniform);
      node.confidence = static_cast<float>(node.q.ProbabilityOf(node.token));
      return std::vector<DraftNode>{std::move(node)};
    }
    spare_choices = 0;
  }
  // Point masses. With the target's own key for this position, p and q agree as often as they can.
  TAHMIN_ASSIGN_OR_RETURN(const std::span<const DraftChoice> choices,
                          choices_.Rank(cache_.logits(), fed_tokens, sequence.seed,
                                        resources_.valid_vocab_size, 1 + spare_choices));
  std::vector<DraftNode> nodes;
  for (const DraftChoice& choice : choices) {
    nodes.push_back({.token = choice.token, .confidence = choice.confidence});
  }
  return nodes;
}

DraftTree DraftModel::DraftChain(const SequenceView& sequence, const DraftBudget& budget) {
  DraftTree tree;
  int32_t end = kRoot;  // of the chain
  float survival = 1;
  // Spare choices take what the chain cannot use.
  int32_t spare_room = std::max(0, budget.max_tokens - budget.max_depth);
  for (int32_t depth = 0; depth < budget.max_depth; ++depth) {
    absl::StatusOr<std::vector<DraftNode>> nodes =
        DrawNodes(sequence, depth, std::min(budget.spare_choices, spare_room));
    if (!nodes.ok()) break;
    const int32_t chain_node = tree.size(), parent = end;
    spare_room -= static_cast<int32_t>(nodes->size()) - 1;
    for (DraftNode& node : *nodes) {
      node.parent = parent;
      tree.nodes.push_back(std::move(node));
    }
    end = chain_node;
    survival *= budget.scale.Of(tree.nodes[end].confidence);
    // The token itself is paid for; the next one would take another pass.
    const bool is_last = depth + 1 == budget.max_depth || survival < budget.min_survival;
    if (is_last || !cache_.Feed({&tree.nodes[end].token, 1})) break;
  }
  return tree;
}

DraftTree DraftModel::GrowTree(const SequenceView& sequence, const DraftBudget& budget) {
  const absl::StatusOr<std::span<const DraftChoice>> choices =
      choices_.Rank(cache_.logits(), cache_.fed_tokens(), sequence.seed,
                    resources_.valid_vocab_size, budget.max_width);
  if (!choices.ok()) return {};
  DraftTreeGrowth growth(budget);
  growth.Expand(kRoot, *choices);
  for (auto frontier = growth.Frontier(); !frontier.empty(); frontier = growth.Frontier()) {
    if (!cache_.RunNodes(growth, frontier)) break;
    if (!ExpandFrontier(sequence, frontier, budget.max_width, growth)) break;
  }
  cache_.FinishTree(growth);
  return growth.Tree();
}

DraftTree DraftModel::SampleTree(const SequenceView& sequence, const DraftBudget& budget) {
  SampledTree tree(budget);
  bool goes_on = Sample(sequence, kRoot, cache_.logits(), tree);
  for (auto frontier = tree.Frontier(); goes_on && !frontier.empty(); frontier = tree.Frontier()) {
    if (!cache_.RunNodes(tree.growth(), frontier)) break;
    const std::span<const float> logits = cache_.logits();
    const size_t row_size = logits.size() / frontier.size();
    for (size_t i = 0; i < frontier.size() && goes_on; ++i)
      goes_on = Sample(sequence, frontier[i], logits.subspan(i * row_size, row_size), tree);
  }
  cache_.FinishTree(tree.growth());
  return tree.Tree();
}

// Draws the children of a node (or of the root token) from its row of logits.
bool DraftModel::Sample(const SequenceView& sequence, int32_t node, std::span<const float> logits,
                        SampledTree& tree) {
  const std::span<const int32_t> context =
      node == kRoot ? cache_.fed_tokens() : cache_.ContextOf(tree.growth(), node);
  const auto candidates = builder_.Build(logits, context, resources_.valid_vocab_size);
  if (!candidates.ok()) return false;
  tree.Expand(node, ToDistribution(*candidates), [&](int32_t place) {
    return StepUniform(sequence.seed, DrawPurpose::kDraft, sequence.step_index,
                       static_cast<uint32_t>(place), static_cast<int64_t>(context.size()));
  });
  return true;
}

// Children for the frontier from the logits of its rows.
bool DraftModel::ExpandFrontier(const SequenceView& sequence, std::span<const int32_t> frontier,
                                int32_t max_width, DraftTreeGrowth& growth) {
  const std::span<const float> logits = cache_.logits();
  const size_t row_size = logits.size() / frontier.size();
  for (size_t i = 0; i < frontier.size(); ++i) {
    const absl::StatusOr<std::span<const DraftChoice>> choices =
        choices_.Rank(logits.subspan(i * row_size, row_size), cache_.ContextOf(growth, frontier[i]),
                      sequence.seed, resources_.valid_vocab_size, max_width);
    if (!choices.ok()) return false;
    growth.Expand(frontier[i], *choices);
  }
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Drafter>> MakeDraftModel(const DraftModelResources& resources,
                                                        const SamplingOptions& sampling) {
  auto drafter = std::make_unique<DraftModel>(resources, sampling);
  TAHMIN_RETURN_IF_ERROR(drafter->Reserve());
  return std::unique_ptr<Drafter>(std::move(drafter));
}

}  // namespace tahmin
