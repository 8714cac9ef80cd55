// Leviathan, Kalman, Matias, "Fast inference from transformers via speculative decoding", arXiv
// 2211.17192, algorithm 1, the drafting half. Where we differ: under the keyed rule the draft draws
// with the target's own key.
#include "draft/draft_model.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/philox.h"
#include "base/status_macros.h"
#include "sampling/candidates.h"
#include "sampling/keyed_draw.h"

namespace tahmin {
namespace {

class DraftModel : public Drafter {
 public:
  DraftModel(const DraftModelResources& resources, const SamplingOptions& sampling)
      : resources_(resources),
        model_(*resources.model),
        cache_(model_.MakeKvShape(resources.kv_type)),
        builder_(sampling) {}

  absl::Status Reserve() {
    TAHMIN_ASSIGN_OR_RETURN(kv_handle_, cache_.AddSequence(resources_.context_tokens));
    // A pass is a piece of the prompt, the one or two tokens that the last step left over, or one
    // draft token.
    max_rows_ = std::max(resources_.prefill_chunk, 2);
    TAHMIN_ASSIGN_OR_RETURN(scratch_, model_.CreateScratch(max_rows_, 1, *resources_.pool));
    return absl::OkStatus();
  }

  std::string_view Name() const override { return "draft"; }
  void Begin(const SequenceView& sequence) override;
  DraftTree Draft(const SequenceView& sequence, const DraftBudget& budget) override;
  // The next Draft compares what was fed with what was committed; that is all there is to observe.
  void Observe(const SequenceView&, const DraftTree&, const VerifiedTree&, const AcceptedPath&,
               std::span<const int32_t>) override {}

 private:
  int32_t LengthOfDraft(const SequenceView& sequence, const DraftBudget& budget) const;
  bool CatchUp(std::span<const int32_t> tokens);
  bool Feed(std::span<const int32_t> tokens);
  absl::StatusOr<DraftNode> DrawNode(const SequenceView& sequence, int32_t index);

  const DraftModelResources resources_;
  const Model& model_;
  KvCache cache_;
  int32_t kv_handle_ = -1;
  int32_t max_rows_ = 0;
  std::unique_ptr<ForwardScratch> scratch_;
  CandidateBuilder builder_;
  std::vector<int32_t> fed_tokens_;  // exactly those whose keys and values the cache holds
};

void DraftModel::Begin(const SequenceView& sequence) {
  // Keys and values of an earlier turn stay: CatchUp keeps the common prefix.
  builder_ = CandidateBuilder(*sequence.sampling);
}

// How many tokens the budget and the cache allow. Depends on lengths only, never on a drawn token.
int32_t DraftModel::LengthOfDraft(const SequenceView& sequence, const DraftBudget& budget) const {
  // All tokens so far are fed, then every draft token but the last.
  const int64_t room = resources_.context_tokens - static_cast<int64_t>(sequence.tokens.size()) + 1;
  const int64_t length = std::min<int64_t>(std::min(budget.max_tokens, budget.max_depth),
                                           std::min<int64_t>(resources_.draft_max, room));
  return static_cast<int32_t>(std::max<int64_t>(0, length));
}

// Appends `tokens` to the cache in passes of at most max_rows_; afterwards the scratch holds the
// logits behind the last one. false: they do not fit or are no ids of this model, and nothing is
// drafted.
bool DraftModel::Feed(std::span<const int32_t> tokens) {
  const int32_t vocab_size = model_.config().vocab_size;
  const bool are_known = std::all_of(tokens.begin(), tokens.end(), [vocab_size](int32_t token) {
    return token >= 0 && token < vocab_size;
  });
  if (!are_known) return false;
  while (!tokens.empty()) {
    const int32_t num_rows =
        static_cast<int32_t>(std::min<size_t>(tokens.size(), static_cast<size_t>(max_rows_)));
    if (!cache_.Reserve(kv_handle_, num_rows).ok()) return false;
    TokenBatch batch;
    batch.AppendChain(kv_handle_, tokens.data(), num_rows, false);
    batch.rows.back().wants_logits = static_cast<size_t>(num_rows) == tokens.size();
    model_.Forward(batch, cache_, *scratch_, *resources_.pool);

    std::vector<int32_t> all_rows(num_rows);
    for (int32_t i = 0; i < num_rows; ++i) all_rows[i] = i;
    cache_.Commit(kv_handle_, all_rows);
    fed_tokens_.insert(fed_tokens_.end(), tokens.begin(), tokens.begin() + num_rows);
    tokens = tokens.subspan(num_rows);
  }
  return true;
}

// Brings the cache to `tokens`, the root token included: rejected draft tokens (or another turn's
// text) go, what is missing is fed. After full acceptance that is two tokens, else one.
bool DraftModel::CatchUp(std::span<const int32_t> tokens) {
  const auto [in_fed, in_tokens] =
      std::mismatch(fed_tokens_.begin(), fed_tokens_.end(), tokens.begin(), tokens.end());
  // The root token always runs again, for its logits.
  const size_t common =
      std::min<size_t>(in_tokens - tokens.begin(), tokens.empty() ? 0 : tokens.size() - 1);
  cache_.Truncate(kv_handle_, static_cast<int64_t>(common));
  fed_tokens_.resize(common);
  const std::span<const int32_t> missing = tokens.subspan(common);
  return model_.OfferTokens(missing, *scratch_, *resources_.pool).ok() && Feed(missing);
}

// Draft token number `index` of this step, from the logits behind fed_tokens_.
absl::StatusOr<DraftNode> DraftModel::DrawNode(const SequenceView& sequence, int32_t index) {
  TAHMIN_ASSIGN_OR_RETURN(
      const std::span<const Candidate> candidates,
      builder_.Build(scratch_->logits(), fed_tokens_, resources_.valid_vocab_size));
  DraftNode node{.parent = index - 1};
  if (sequence.acceptance == AcceptanceRuleKind::kRejection && candidates.size() > 1) {
    node.q = ToDistribution(candidates);
    const double uniform =
        StepUniform(sequence.seed, DrawPurpose::kDraft, sequence.step_index,
                    static_cast<uint32_t>(index), static_cast<int64_t>(fed_tokens_.size()));
    node.token = DrawFrom(node.q, uniform);
    return node;
  }
  // A point mass. With the target's own key for this position, p and q agree as often as they can.
  node.token = KeyedDraw(candidates, sequence.seed, static_cast<int64_t>(fed_tokens_.size()));
  return node;
}

DraftTree DraftModel::Draft(const SequenceView& sequence, const DraftBudget& budget) {
  DraftTree tree;
  const int32_t length = LengthOfDraft(sequence, budget);
  if (length == 0 || !CatchUp(sequence.tokens)) return tree;
  for (int32_t index = 0; index < length; ++index) {
    absl::StatusOr<DraftNode> node = DrawNode(sequence, index);
    if (!node.ok()) break;
    tree.nodes.push_back(std::move(node).value());
    const bool is_last = index + 1 == length;
    if (is_last || !Feed({&tree.nodes.back().token, 1})) break;
  }
  return tree;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Drafter>> MakeDraftModel(const DraftModelResources& resources,
                                                        const SamplingOptions& sampling) {
  auto drafter = std::make_unique<DraftModel>(resources, sampling);
  TAHMIN_RETURN_IF_ERROR(drafter->Reserve());
  return std::unique_ptr<Drafter>(std::move(drafter));
}

}  // namespace tahmin
