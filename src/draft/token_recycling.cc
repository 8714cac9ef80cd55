#include "draft/token_recycling.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <vector>

#include "draft/recycling_matrix.h"

namespace tahmin {
namespace {

// A node that may join the tree.
struct Candidate {
  float survival;         // product of the confidences on its path
  float scaled_survival;  // the same of the scaled ones
  float confidence;
  int32_t token;
  int32_t parent;
  int32_t depth;
};

// The heap's top: the likeliest one; among equals that of the earlier parent, the lower id.
bool ComesLater(const Candidate& a, const Candidate& b) {
  return std::tuple(a.survival, -a.parent, -a.token) < std::tuple(b.survival, -b.parent, -b.token);
}

class TokenRecycling : public Drafter {
 public:
  TokenRecycling(RecyclingMatrix* matrix, int32_t vocab_size)
      : own_matrix_(matrix == nullptr ? std::make_unique<RecyclingMatrix>(vocab_size) : nullptr),
        matrix_(matrix == nullptr ? *own_matrix_ : *matrix) {}

  std::string_view Name() const override { return "recycling"; }
  void Begin(const SequenceView& sequence) override;
  DraftTree Draft(const SequenceView& sequence, const DraftBudget& budget) override;
  void Observe(const SequenceView& sequence, const DraftTree& draft, const VerifiedTree& verified,
               const AcceptedPath& accepted, std::span<const int32_t> node_map) override;

 private:
  void OfferChildren(const DraftTree& tree, const Candidate& parent, int32_t previous,
                     const DraftBudget& budget);
  void LearnAcceptance(std::span<const int32_t> tokens, size_t root);
  void StoreRejectedRows(int32_t root_token, const DraftTree& draft, const VerifiedTree& verified,
                         const AcceptedPath& accepted, std::span<const int32_t> node_map);

  const std::unique_ptr<RecyclingMatrix> own_matrix_;
  RecyclingMatrix& matrix_;
  std::vector<int32_t> known_tokens_;  // whose bigrams the matrix has
  std::vector<Candidate> candidates_;  // a heap while a tree grows
  std::vector<int32_t> num_children_;  // of the root, then of node i
};

int32_t TokenBefore(std::span<const int32_t> tokens, size_t index) {
  return index > 0 ? tokens[index - 1] : -1;
}

void TokenRecycling::Begin(const SequenceView& sequence) {
  const std::span<const int32_t> tokens = sequence.tokens;
  const auto [in_known, in_tokens] =
      std::mismatch(known_tokens_.begin(), known_tokens_.end(), tokens.begin(), tokens.end());
  const size_t num_known = in_tokens - tokens.begin();
  for (size_t i = std::max<size_t>(num_known, 1); i < tokens.size(); ++i) {
    matrix_.StoreFollower(TokenBefore(tokens, i - 1), tokens[i - 1], tokens[i]);
  }
  known_tokens_.assign(tokens.begin(), tokens.end());
}

// Puts the successors of `parent`'s token on the heap; `previous` is the token in front of it.
void TokenRecycling::OfferChildren(const DraftTree& tree, const Candidate& parent, int32_t previous,
                                   const DraftBudget& budget) {
  if (parent.depth >= budget.max_depth || !matrix_.IsToken(parent.token)) return;
  const auto [row, knows_pair] = matrix_.Find(previous, parent.token);
  const SuccessorAcceptance& acceptance = matrix_.acceptance();
  std::array<float, RecyclingMatrix::kSuccessors> confidences{};
  float sum = 0;
  int32_t count = 0;
  for (; count < RecyclingMatrix::kSuccessors && row.shares[count] > 0; ++count) {
    confidences[count] = acceptance.Of(knows_pair, count, row.ProbabilityOf(count));
    sum += confidences[count];
  }
  // At most one sibling can be right.
  const float scale = sum > 1 ? 1 / sum : 1.0f;
  for (int32_t rank = 0; rank < count; ++rank) {
    const float confidence = confidences[rank] * scale;
    const float scaled_survival = parent.scaled_survival * budget.scale.Of(confidence);
    if (scaled_survival < budget.min_survival) continue;
    candidates_.push_back({.survival = parent.survival * confidence,
                           .scaled_survival = scaled_survival,
                           .confidence = confidence,
                           .token = row.tokens[rank],
                           .parent = tree.size() - 1,
                           .depth = parent.depth + 1});
    std::push_heap(candidates_.begin(), candidates_.end(), ComesLater);
  }
}

DraftTree TokenRecycling::Draft(const SequenceView& sequence, const DraftBudget& budget) {
  DraftTree tree;
  if (sequence.tokens.empty() || budget.max_tokens <= 0 || budget.max_depth <= 0) return tree;
  candidates_.clear();
  num_children_.assign(1, 0);
  const size_t root = sequence.tokens.size() - 1;
  OfferChildren(tree,
                {.survival = 1,
                 .scaled_survival = 1,
                 .confidence = 1,
                 .token = sequence.tokens[root],
                 .parent = kRoot,
                 .depth = 0},
                TokenBefore(sequence.tokens, root), budget);
  while (tree.size() < budget.max_tokens && !candidates_.empty()) {
    std::pop_heap(candidates_.begin(), candidates_.end(), ComesLater);
    const Candidate best = candidates_.back();
    candidates_.pop_back();
    int32_t& num_siblings = num_children_[best.parent + 1];
    if (num_siblings >= budget.max_width) continue;
    num_siblings += 1;
    tree.nodes.push_back(
        {.token = best.token, .parent = best.parent, .confidence = best.confidence});
    num_children_.push_back(0);
    const int32_t parent_token =
        best.parent == kRoot ? sequence.tokens[root] : tree.nodes[best.parent].token;
    OfferChildren(tree, best, parent_token, budget);
  }
  return tree;
}

// Every emitted token tells of all successors of the token before it whether they were right. The
// rows are still those that the draft saw.
void TokenRecycling::LearnAcceptance(std::span<const int32_t> tokens, size_t root) {
  for (size_t i = root; i + 1 < tokens.size(); ++i) {
    if (!matrix_.IsToken(tokens[i])) continue;
    const auto [row, knows_pair] = matrix_.Find(TokenBefore(tokens, i), tokens[i]);
    for (int32_t rank = 0; rank < RecyclingMatrix::kSuccessors && row.shares[rank] > 0; ++rank) {
      matrix_.acceptance().Learn(knows_pair, rank, row.ProbabilityOf(rank),
                                 row.tokens[rank] == tokens[i + 1]);
    }
  }
}

void TokenRecycling::StoreRejectedRows(int32_t root_token, const DraftTree& draft,
                                       const VerifiedTree& verified, const AcceptedPath& accepted,
                                       std::span<const int32_t> node_map) {
  for (int32_t i = 0; i < draft.size(); ++i) {
    const int32_t node = node_map[i];
    const bool is_accepted =
        std::find(accepted.nodes.begin(), accepted.nodes.end(), node) != accepted.nodes.end();
    if (node < 0 || is_accepted) continue;
    const int32_t parent = draft.nodes[i].parent;
    const int32_t previous = parent == kRoot ? root_token : draft.nodes[parent].token;
    matrix_.StoreLogits(previous, draft.nodes[i].token, verified.LogitsOf(node));
  }
}

void TokenRecycling::Observe(const SequenceView& sequence, const DraftTree& draft,
                             const VerifiedTree& verified, const AcceptedPath& accepted,
                             std::span<const int32_t> node_map) {
  const std::span<const int32_t> tokens = sequence.tokens;
  if (verified.vocab_size < matrix_.vocab_size() || tokens.size() < accepted.tokens.size() + 1) {
    return;
  }
  const size_t root = tokens.size() - accepted.tokens.size() - 1;
  LearnAcceptance(tokens, root);
  // Of rows with the same input token the last one stays: those of the accepted path, whose context
  // is the text itself, come last, and among the others the later node.
  StoreRejectedRows(tokens[root], draft, verified, accepted, node_map);
  int32_t node = kRoot;
  for (size_t i = 0; i <= accepted.nodes.size(); ++i) {
    matrix_.StoreLogits(TokenBefore(tokens, root + i), tokens[root + i], verified.LogitsOf(node));
    if (i < accepted.nodes.size()) node = accepted.nodes[i];
  }
  if (known_tokens_.size() < tokens.size()) {
    known_tokens_.insert(known_tokens_.end(), tokens.begin() + known_tokens_.size(), tokens.end());
  }
}

}  // namespace

std::unique_ptr<Drafter> MakeTokenRecycling(RecyclingMatrix* matrix, int32_t vocab_size) {
  return std::make_unique<TokenRecycling>(matrix, vocab_size);
}

}  // namespace tahmin
