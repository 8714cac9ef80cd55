#include "draft/draft_cache.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/status_macros.h"

namespace tahmin {

DraftScratchShape DraftScratchShape::Of(int32_t prefill_chunk, int32_t max_width) {
  // A pass is a piece of the prompt, the one or two tokens that the last step left over, one draft
  // token, or nodes of a tree.
  constexpr int32_t kTreeRows = 64, kFrontierRows = 8;
  if (max_width <= 1) return {std::max(prefill_chunk, 2), 1};
  return {std::max(prefill_chunk, kTreeRows), kFrontierRows};
}

DraftCache::DraftCache(const DraftModelResources& resources)
    : resources_(resources),
      model_(*resources.model),
      cache_(model_.MakeKvShape(resources.kv_type)) {}

absl::Status DraftCache::Reserve() {
  TAHMIN_ASSIGN_OR_RETURN(kv_handle_, cache_.AddSequence(resources_.context_tokens));
  const auto [rows, logit_rows] =
      DraftScratchShape::Of(resources_.prefill_chunk, resources_.max_width);
  TAHMIN_ASSIGN_OR_RETURN(scratch_, model_.CreateScratch(rows, logit_rows, *resources_.pool));
  return absl::OkStatus();
}

bool DraftCache::Feed(std::span<const int32_t> tokens) {
  const int32_t vocab_size = model_.config().vocab_size;
  const bool are_known = std::all_of(tokens.begin(), tokens.end(), [vocab_size](int32_t token) {
    return token >= 0 && token < vocab_size;
  });
  if (!are_known) return false;
  while (!tokens.empty()) {
    const auto num_rows = static_cast<int32_t>(
        std::min<size_t>(tokens.size(), static_cast<size_t>(scratch_->max_rows())));
    if (!cache_.Reserve(kv_handle_, num_rows).ok()) return false;
    TokenBatch batch;
    batch.AppendChain(kv_handle_, tokens.data(), num_rows, false);
    batch.rows.back().wants_logits = static_cast<size_t>(num_rows) == tokens.size();
    model_.Forward(batch, cache_, *scratch_, *resources_.pool);

    std::vector<int32_t> all_rows(num_rows);
    std::iota(all_rows.begin(), all_rows.end(), 0);
    cache_.Commit(kv_handle_, all_rows);
    fed_tokens_.insert(fed_tokens_.end(), tokens.begin(), tokens.begin() + num_rows);
    tokens = tokens.subspan(num_rows);
  }
  return true;
}

bool DraftCache::CatchUp(std::span<const int32_t> tokens, int32_t max_catch_up) {
  stem_ = kRoot;
  const auto [in_fed, in_tokens] =
      std::mismatch(fed_tokens_.begin(), fed_tokens_.end(), tokens.begin(), tokens.end());
  // The root token always runs again, for its logits.
  size_t common =
      std::min<size_t>(in_tokens - tokens.begin(), tokens.empty() ? 0 : tokens.size() - 1);
  // Without a bound all is read: a window from an earlier, bounded call is not enough.
  if (common < window_begin_ || max_catch_up == 0) {
    if (window_begin_ > 0) common = 0;
    window_begin_ = 0;
  }
  const bool is_too_much =
      max_catch_up > 0 && tokens.size() - common > static_cast<size_t>(max_catch_up);
  if (is_too_much) common = window_begin_ = tokens.size() - static_cast<size_t>(max_catch_up);
  cache_.Truncate(kv_handle_, static_cast<int64_t>(common - window_begin_));
  fed_tokens_.assign(tokens.begin(), tokens.begin() + static_cast<int64_t>(common));
  const std::span<const int32_t> missing = tokens.subspan(common);
  return model_.OfferTokens(missing, *scratch_, *resources_.pool).ok() && Feed(missing);
}

bool DraftCache::RunNodes(const DraftTreeGrowth& growth, std::vector<int32_t>& frontier) {
  MoveStem(growth, growth.CommonAncestor(frontier));
  PlanPass(growth, frontier);
  const bool has_room = !frontier.empty() &&
                        cache_.Reserve(kv_handle_, static_cast<int64_t>(pass_nodes_.size())).ok();
  if (!has_room) {
    pass_nodes_.clear();
    return false;
  }
  TokenBatch batch;
  for (const int32_t node : pass_nodes_) {
    BatchRow row{.token = growth.TokenOf(node),
                 .sequence = kv_handle_,
                 .tree_slot = static_cast<int32_t>(batch.rows.size()),
                 .wants_logits = std::binary_search(frontier.begin(), frontier.end(), node)};
    const int32_t parent = growth.ParentOf(node);
    if (parent != stem_) {
      const auto in_pass = std::lower_bound(pass_nodes_.begin(), pass_nodes_.end(), parent);
      row.parent_row = static_cast<int32_t>(in_pass - pass_nodes_.begin());
      row.depth = batch.rows[row.parent_row].depth + 1;
    }
    batch.rows.push_back(row);
  }
  model_.Forward(batch, cache_, *scratch_, *resources_.pool);
  return true;
}

// Commits the path from the stem towards `node`, as far as the last pass ran it, and frees the
// other slots. Nodes to be run later all hang below `node`: what is no longer chosen never is
// again.
void DraftCache::MoveStem(const DraftTreeGrowth& growth, int32_t node) {
  std::vector<int32_t> slots;
  for (const int32_t step : growth.PathBelow(stem_, node)) {
    const auto row = std::find(pass_nodes_.begin(), pass_nodes_.end(), step);
    if (row == pass_nodes_.end()) break;
    slots.push_back(static_cast<int32_t>(row - pass_nodes_.begin()));
    fed_tokens_.push_back(growth.TokenOf(step));
    stem_ = step;
  }
  if (!pass_nodes_.empty()) cache_.Commit(kv_handle_, slots);
  pass_nodes_.clear();
}

// Chooses the rows of the next pass: of the frontier as many nodes as fit, the best ones first, and
// what lies between them and the stem. Cuts `frontier` to those, in row order.
void DraftCache::PlanPass(const DraftTreeGrowth& growth, std::vector<int32_t>& frontier) {
  std::vector<int32_t> taken, rows;
  for (const int32_t node : frontier) {
    if (static_cast<int32_t>(taken.size()) == scratch_->max_logit_rows()) break;
    std::vector<int32_t> with_node = growth.PathBelow(stem_, node);
    with_node.insert(with_node.end(), rows.begin(), rows.end());
    std::sort(with_node.begin(), with_node.end());
    with_node.erase(std::unique(with_node.begin(), with_node.end()), with_node.end());
    if (static_cast<int32_t>(with_node.size()) > scratch_->max_rows()) break;
    rows = std::move(with_node);
    taken.push_back(node);
  }
  std::sort(taken.begin(), taken.end());
  frontier = std::move(taken);
  pass_nodes_ = std::move(rows);
}

std::span<const int32_t> DraftCache::ContextOf(const DraftTreeGrowth& growth, int32_t node) {
  context_.assign(fed_tokens_.begin(), fed_tokens_.end());
  for (const int32_t step : growth.PathBelow(stem_, node)) {
    context_.push_back(growth.TokenOf(step));
  }
  return context_;
}

void DraftCache::FinishTree(const DraftTreeGrowth& growth) {
  int32_t end = stem_;
  for (bool goes_on = true; goes_on;) {
    int32_t best = end;
    for (const int32_t node : pass_nodes_) {
      if (growth.ParentOf(node) != end) continue;
      if (best == end || growth.SurvivalOf(node) > growth.SurvivalOf(best)) best = node;
    }
    goes_on = best != end;
    end = best;
  }
  MoveStem(growth, end);
  stem_ = kRoot;
}

}  // namespace tahmin
