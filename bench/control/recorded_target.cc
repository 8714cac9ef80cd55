#include "bench/control/recorded_target.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace tahmin::bench {
namespace {

class KnownRowsDrafter final : public Drafter {
 public:
  explicit KnownRowsDrafter(std::unique_ptr<Drafter> drafter) : drafter_(std::move(drafter)) {}

  std::string_view Name() const override { return drafter_->Name(); }
  DrafterNeeds Needs() const override { return drafter_->Needs(); }
  void Begin(const SequenceView& sequence) override { drafter_->Begin(sequence); }
  DraftTree Draft(const SequenceView& sequence, const DraftBudget& budget) override {
    return drafter_->Draft(sequence, budget);
  }
  void Observe(const SequenceView& sequence, const DraftTree& draft, const VerifiedTree& verified,
               const AcceptedPath& accepted, std::span<const int32_t> node_map) override {
    std::vector<int32_t> known(node_map.begin(), node_map.end());
    for (int32_t& node : known) {
      const auto found = std::find(accepted.nodes.begin(), accepted.nodes.end(), node);
      if (found == accepted.nodes.end()) node = -1;
    }
    drafter_->Observe(sequence, draft, verified, accepted, known);
  }

 private:
  const std::unique_ptr<Drafter> drafter_;
};

}  // namespace

void RecordedTarget::FillRow(const TextRecord& text, size_t position, int32_t node) {
  const auto row = logits_.begin() + static_cast<int64_t>(node + 1) * vocab_size_;
  if (position >= text.rows.size()) {
    std::fill_n(row, vocab_size_, 0.0f);
    return;
  }
  const std::vector<TokenLogprob>& top = text.rows[position];
  double rest = 1;
  for (const TokenLogprob& entry : top) rest -= std::exp(entry.logprob);
  const double num_others = std::max<double>(1, vocab_size_ - static_cast<double>(top.size()));
  // Never more likely than the least of the recorded ones, which rounding could make of it.
  const auto other = static_cast<float>(std::log(std::max(rest, 1e-9) / num_others));
  std::fill_n(row, vocab_size_, std::min(other, top.back().logprob));
  for (const TokenLogprob& entry : top) row[entry.token] = entry.logprob;
  // The first one stays the best where rounding has made others equal to it.
  row[top.front().token] = std::nextafter(top.front().logprob, std::numeric_limits<float>::max());
}

VerifiedTree RecordedTarget::Verify(const TextRecord& text, size_t position,
                                    const DraftTree& tree) {
  const size_t size = (tree.nodes.size() + 1) * static_cast<size_t>(vocab_size_);
  if (logits_.size() < size) logits_.resize(size);
  FillRow(text, position, kRoot);
  int32_t node = kRoot;
  for (size_t next = position + 1; next < text.output.size(); ++next) {
    node = tree.FindChild(node, text.output[next]);
    if (node < 0) break;
    FillRow(text, next, node);
  }
  return {.logits = std::span<const float>(logits_).first(size), .vocab_size = vocab_size_};
}

std::unique_ptr<Drafter> ShowKnownRowsOnly(std::unique_ptr<Drafter> drafter) {
  return std::make_unique<KnownRowsDrafter>(std::move(drafter));
}

}  // namespace tahmin::bench
