#include "draft/test_drafters.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/philox.h"

namespace tahmin {
namespace {

// Test drafters learn nothing from what the target says.
class BlindDrafter : public Drafter {
 public:
  void Begin(const SequenceView&) override {}
  void Observe(const SequenceView&, const DraftTree&, const VerifiedTree&, const AcceptedPath&,
               std::span<const int32_t>) override {}
};

class Replay : public BlindDrafter {
 public:
  explicit Replay(std::vector<int32_t> tokens) : tokens_(std::move(tokens)) {}

  std::string_view Name() const override { return "replay"; }
  void Begin(const SequenceView&) override { num_matched_ = 0; }
  DraftTree Draft(const SequenceView& sequence, const DraftBudget& budget) override {
    DraftTree tree;
    const std::span<const int32_t> so_far = sequence.tokens;
    while (num_matched_ < so_far.size() && num_matched_ < tokens_.size() &&
           so_far[num_matched_] == tokens_[num_matched_]) {
      ++num_matched_;
    }
    if (num_matched_ < so_far.size()) return tree;
    const size_t length = std::min<size_t>(std::min(budget.max_tokens, budget.max_depth),
                                           tokens_.size() - num_matched_);
    for (size_t i = 0; i < length; ++i) {
      tree.nodes.push_back(
          {.token = tokens_[num_matched_ + i], .parent = static_cast<int32_t>(i) - 1});
    }
    return tree;
  }

 private:
  const std::vector<int32_t> tokens_;
  size_t num_matched_ = 0;
};

class Junk : public BlindDrafter {
 public:
  explicit Junk(int32_t vocab_size) : vocab_size_(vocab_size) {}

  std::string_view Name() const override { return "junk"; }
  DraftTree Draft(const SequenceView& sequence, const DraftBudget& budget) override {
    DraftTree tree;
    int32_t previous = sequence.tokens.back();
    const int32_t length = std::min(budget.max_tokens, budget.max_depth);
    for (int32_t i = 0; i < length; ++i) {
      // A fixed key: junk is part of a test, not of a distribution.
      const PhiloxCounter counter = MakeCounter(DrawPurpose::kDraft, static_cast<uint32_t>(i),
                                                static_cast<uint64_t>(sequence.step_index));
      int32_t token = static_cast<int32_t>(Philox4x32(0x6a756e6b, counter)[0] %
                                           static_cast<uint32_t>(vocab_size_));
      if (token == previous) token = (token + 1) % vocab_size_;
      tree.nodes.push_back({.token = token, .parent = i - 1});
      previous = token;
    }
    return tree;
  }

 private:
  const int32_t vocab_size_;
};

class Script : public BlindDrafter {
 public:
  explicit Script(std::vector<DraftTree> trees) : trees_(std::move(trees)) {}

  std::string_view Name() const override { return "script"; }
  DraftTree Draft(const SequenceView& sequence, const DraftBudget& budget) override {
    const int64_t index = sequence.step_index - 1;  // decoding steps count from 1
    if (index < 0 || index >= static_cast<int64_t>(trees_.size())) return {};
    // The first nodes: parents come before children, so ancestors are kept.
    DraftTree tree = trees_[index];
    if (tree.size() > budget.max_tokens) tree.nodes.resize(budget.max_tokens);
    return tree;
  }

 private:
  const std::vector<DraftTree> trees_;
};

}  // namespace

std::unique_ptr<Drafter> MakeReplay(std::vector<int32_t> tokens) {
  return std::make_unique<Replay>(std::move(tokens));
}

std::unique_ptr<Drafter> MakeJunk(int32_t vocab_size) { return std::make_unique<Junk>(vocab_size); }

std::unique_ptr<Drafter> MakeScript(std::vector<DraftTree> trees) {
  return std::make_unique<Script>(std::move(trees));
}

std::vector<int32_t> EncodeScript(std::span<const DraftTree> trees) {
  std::vector<int32_t> numbers;
  for (const DraftTree& tree : trees) {
    numbers.push_back(tree.size());
    for (const DraftNode& node : tree.nodes) {
      numbers.push_back(node.token);
      numbers.push_back(node.parent);
    }
  }
  return numbers;
}

absl::StatusOr<std::vector<DraftTree>> DecodeScript(std::span<const int32_t> numbers) {
  std::vector<DraftTree> trees;
  while (!numbers.empty()) {
    const int32_t num_nodes = numbers[0];
    numbers = numbers.subspan(1);
    if (num_nodes < 0 || static_cast<size_t>(num_nodes) > numbers.size() / 2) {
      return absl::InvalidArgumentError(
          fmt::format("script tree {} says {} nodes; {} numbers are left", trees.size(), num_nodes,
                      numbers.size()));
    }
    DraftTree tree;
    for (int32_t i = 0; i < num_nodes; ++i) {
      tree.nodes.push_back({.token = numbers[2 * i], .parent = numbers[2 * i + 1]});
    }
    numbers = numbers.subspan(2 * static_cast<size_t>(num_nodes));
    trees.push_back(std::move(tree));
  }
  return trees;
}

}  // namespace tahmin
