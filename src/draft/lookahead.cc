#include "draft/lookahead.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/philox.h"

namespace tahmin {
namespace {

constexpr int32_t kNotSubmitted = -2;  // unlike kRoot
constexpr int32_t kMostWindow = 64, kMostNgram = 16, kMostGuesses = 64;

absl::Status OutOfRange(const char* what, int32_t value, int32_t least, int32_t most) {
  return absl::InvalidArgumentError(
      fmt::format("lookahead {} is {}; expected {} to {}", what, value, least, most));
}

}  // namespace

absl::Status ValidateLookaheadShape(const LookaheadShape& shape) {
  if (shape.window < 1 || shape.window > kMostWindow) {
    return OutOfRange("window", shape.window, 1, kMostWindow);
  }
  if (shape.ngram < 2 || shape.ngram > kMostNgram) {
    return OutOfRange("n-gram", shape.ngram, 2, kMostNgram);
  }
  if (shape.guesses < 1 || shape.guesses > kMostGuesses) {
    return OutOfRange("guesses", shape.guesses, 1, kMostGuesses);
  }
  return absl::OkStatus();
}

// Siblings differ: a token that is there already is shared.
struct Lookahead::Growth {
  const DraftBudget& budget;
  int32_t vocab_size;
  DraftTree tree = {};
  std::vector<Kind> kinds = {};
  std::vector<int32_t> depths = {0}, num_children = {0};  // of the root, then of node i

  bool HasRoomFor(int32_t parent, std::span<const int32_t> path) const {
    const auto num_nodes = static_cast<int32_t>(path.size());
    if (num_nodes == 0) return true;
    if (tree.size() + num_nodes > budget.max_tokens) return false;
    if (depths[parent + 1] + num_nodes > budget.max_depth) return false;
    if (num_children[parent + 1] >= budget.max_width) return false;
    return std::all_of(path.begin(), path.end(),
                       [this](int32_t token) { return token >= 0 && token < vocab_size; });
  }
  int32_t Push(int32_t parent, int32_t token, Kind kind, float confidence) {
    tree.nodes.push_back({.token = token, .parent = parent, .confidence = confidence});
    kinds.push_back(kind);
    depths.push_back(depths[parent + 1] + 1);
    num_children[parent + 1] += 1;
    num_children.push_back(0);
    return tree.size() - 1;
  }
};

Lookahead::Lookahead(const LookaheadShape& shape, int32_t vocab_size)
    : shape_(shape),
      vocab_size_(vocab_size),
      pool_(shape.ngram - 1, shape.guesses, kMostKeys),
      // What is known before anything is counted; worth four tests.
      rates_{{{1.2f, 4}, {0.4f, 4}, {2.4f, 4}, {0.4f, 4}, {0.8f, 4}}} {}

void Lookahead::Begin(const SequenceView& sequence) {
  const std::span<const int32_t> tokens = sequence.tokens;
  const bool goes_on = known_tokens_.size() <= tokens.size() &&
                       std::equal(known_tokens_.begin(), known_tokens_.end(), tokens.begin());
  if (!goes_on) known_tokens_.clear();
  AddTextNgrams(tokens);

  // Level 0: tokens drawn at random from the text. The longest it ever is: every step until all
  // levels are there moves it on by one.
  const int32_t num_columns = shape_.window + shape_.ngram - 2;
  levels_.assign(1, std::vector<int32_t>(num_columns, 0));
  for (int32_t column = 1; column < num_columns && !tokens.empty(); ++column) {
    const uint32_t bits = Philox4x32(0, {{static_cast<uint32_t>(column), 0, 0, 0}})[0];
    levels_[0][column] = tokens[bits % tokens.size()];
  }
  column_ends_.clear();
}

// The n-grams that end in what was not known yet.
void Lookahead::AddTextNgrams(std::span<const int32_t> tokens) {
  const auto size = static_cast<size_t>(shape_.ngram);
  for (size_t end = std::max(known_tokens_.size() + 1, size); end <= tokens.size(); ++end) {
    const std::span<const int32_t> ngram = tokens.subspan(end - size, size);
    pool_.Add(ngram.front(), ngram.subspan(1));
  }
  if (known_tokens_.size() < tokens.size()) {
    known_tokens_.insert(known_tokens_.end(), tokens.begin() + known_tokens_.size(), tokens.end());
  }
}

DraftTree Lookahead::Draft(const SequenceView& sequence, const DraftBudget& budget) {
  column_ends_.clear();
  kinds_.clear();
  if (sequence.tokens.empty() || levels_.empty()) return {};
  Growth growth{.budget = budget, .vocab_size = vocab_size_};
  levels_[0][0] = sequence.tokens.back();
  AddGuesses(sequence.tokens.back(), growth);
  AddWindow(growth);
  kinds_ = std::move(growth.kinds);
  return std::move(growth.tree);
}

// Walks down what is there and adds the rest. The node at the end of the path, or kNotSubmitted
// where the rest does not fit: then nothing is added.
int32_t Lookahead::AddPath(int32_t parent, std::span<const int32_t> path, bool is_probe,
                           Growth& growth) {
  std::vector<int32_t> nodes;
  int32_t node = parent;
  for (const int32_t token : path) {
    const int32_t child = growth.tree.FindChild(node, token);
    if (child < 0) break;
    nodes.push_back(node = child);
  }
  const std::span<const int32_t> missing = path.subspan(nodes.size());
  if (!growth.HasRoomFor(node, missing)) return kNotSubmitted;
  for (const int32_t token : missing) {
    Kind kind = node == kRoot ? kFirstOfWindow : kRestOfWindow;
    if (!is_probe) {
      const bool is_newest = growth.tree.empty();
      kind = node != kRoot ? kRestOfGuess : is_newest ? kFirstOfGuess : kFirstOfOlderGuess;
    }
    node = growth.Push(node, token, kind, rates_[kind].hits / rates_[kind].tests);
    nodes.push_back(node);
  }
  if (is_probe) {
    for (const int32_t probe : nodes) growth.tree.nodes[probe].is_probe = true;
  }
  return node;
}

void Lookahead::AddGuesses(int32_t root_token, Growth& growth) {
  const int32_t num_guesses = std::min(pool_.NumValues(root_token), shape_.guesses);
  for (int32_t i = 0; i < num_guesses; ++i) {
    // The part of a guess that fits is worth as much per node as all of it.
    std::span<const int32_t> guess = pool_.Value(root_token, i);
    while (!guess.empty() && AddPath(kRoot, guess, false, growth) == kNotSubmitted) {
      guess = guess.first(guess.size() - 1);
    }
  }
}

// Column i is one path: the trunk's node i, then its higher levels. Whole columns only: one without
// its last level gives no new token.
void Lookahead::AddWindow(Growth& growth) {
  const size_t num_levels = levels_.size(), num_columns = levels_[0].size();
  column_ends_.assign(num_columns, kNotSubmitted);
  int32_t trunk = kRoot;
  std::vector<int32_t> path;
  for (size_t column = 0; column < num_columns; ++column) {
    path.clear();
    for (size_t level = column == 0 ? 1 : 0; level < num_levels; ++level) {
      path.push_back(levels_[level][column]);
    }
    column_ends_[column] = AddPath(trunk, path, true, growth);
    if (column_ends_[column] == kNotSubmitted) return;
    if (column > 0) trunk = growth.tree.FindChild(trunk, path.front());
  }
}

void Lookahead::Observe(const SequenceView& sequence, const DraftTree& draft,
                        const VerifiedTree& verified, const AcceptedPath& accepted,
                        std::span<const int32_t> node_map) {
  const std::span<const int32_t> tokens = sequence.tokens;
  if (levels_.empty() || tokens.size() < accepted.tokens.size() + 1) return;
  const size_t root = tokens.size() - accepted.tokens.size() - 1;
  levels_[0][0] = tokens[root];
  LearnRates(tokens.subspan(root + 1), draft);
  const std::vector<int32_t> new_tokens = NewTokens(verified, node_map);
  AddWindowNgrams(new_tokens);
  AddTextNgrams(tokens);
  ShiftWindow(new_tokens);
  column_ends_.clear();
}

void Lookahead::LearnRates(std::span<const int32_t> emitted, const DraftTree& draft) {
  constexpr float kMemory = 1 - 1.0f / 256;
  if (kinds_.size() != draft.nodes.size()) return;
  int32_t node = kRoot;
  for (const int32_t token : emitted) {
    for (int32_t i = node + 1; i < draft.size(); ++i) {
      if (draft.nodes[i].parent != node) continue;
      Rate& rate = rates_[kinds_[i]];
      rate.tests = rate.tests * kMemory + 1;
      rate.hits = rate.hits * kMemory + (draft.nodes[i].token == token ? 1.0f : 0.0f);
      // Never a certainty, either way.
      rate.hits = std::clamp(rate.hits, 0.001f * rate.tests, 0.999f * rate.tests);
    }
    node = draft.FindChild(node, token);
    if (node < 0) return;
  }
}

// What the target says behind the last level of each column; -1: the column was not submitted.
std::vector<int32_t> Lookahead::NewTokens(const VerifiedTree& verified,
                                          std::span<const int32_t> node_map) {
  std::vector<int32_t> new_tokens(levels_[0].size(), -1);
  if (verified.vocab_size < vocab_size_) return new_tokens;
  column_ends_.resize(new_tokens.size(), kNotSubmitted);
  // With one level, column 0 is the root alone, which is in every pass.
  if (levels_.size() == 1) column_ends_[0] = kRoot;
  for (size_t column = 0; column < new_tokens.size(); ++column) {
    const int32_t end = column_ends_[column];
    if (end == kNotSubmitted || end >= static_cast<int32_t>(node_map.size())) continue;
    const int32_t node = end == kRoot ? kRoot : node_map[end];
    if (end != kRoot && node < 0) continue;
    new_tokens[column] = BestToken(verified.LogitsOf(node));
  }
  return new_tokens;
}

// The largest logit, the lowest id among equals; -1: there is none.
int32_t Lookahead::BestToken(std::span<const float> logits) {
  const std::span<const float> row = logits.first(static_cast<size_t>(vocab_size_));
  ScanRow(row, scan_);
  if (!std::isfinite(scan_.max)) return -1;
  const auto block = std::find(scan_.block_max.begin(), scan_.block_max.end(), scan_.max);
  const size_t begin = static_cast<size_t>(block - scan_.block_max.begin()) * kScanBlock;
  return static_cast<int32_t>(std::find(row.begin() + begin, row.end(), scan_.max) - row.begin());
}

void Lookahead::AddWindowNgrams(std::span<const int32_t> new_tokens) {
  const auto num_levels = static_cast<int32_t>(levels_.size());
  if (num_levels < shape_.ngram - 1) return;
  std::vector<int32_t> value(num_levels);
  for (size_t column = 0; column < new_tokens.size(); ++column) {
    if (new_tokens[column] < 0) continue;
    for (int32_t level = 1; level < num_levels; ++level) value[level - 1] = levels_[level][column];
    value.back() = new_tokens[column];
    pool_.Add(levels_[0][column], value);
  }
}

// One position on, whatever was accepted. While levels are missing the new tokens become one more,
// and every level loses its first column; later level 0 goes and the new tokens are the last level.
void Lookahead::ShiftWindow(std::span<const int32_t> new_tokens) {
  std::vector<int32_t> last = levels_.back();  // where a new token is missing, this one stays
  for (size_t column = 0; column < last.size(); ++column) {
    if (new_tokens[column] >= 0) last[column] = new_tokens[column];
  }
  const bool is_growing = static_cast<int32_t>(levels_.size()) < shape_.ngram - 1;
  levels_.push_back(std::move(last));
  if (!is_growing) {
    levels_.erase(levels_.begin());
    return;
  }
  for (std::vector<int32_t>& level : levels_) level.erase(level.begin());
}

}  // namespace tahmin
