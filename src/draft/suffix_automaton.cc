#include "draft/suffix_automaton.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tahmin {
namespace {

constexpr int32_t kRootState = 0;
constexpr int32_t kNone = -1;

uint64_t HashOf(int32_t state, int32_t token) {
  uint64_t hash =
      (static_cast<uint64_t>(static_cast<uint32_t>(state)) << 32) | static_cast<uint32_t>(token);
  hash *= 0x9e3779b97f4a7c15ull;
  hash ^= hash >> 32;
  hash *= 0xd6e8feb86659fd93ull;
  return hash ^ (hash >> 32);
}

}  // namespace

void SuffixAutomaton::Clear() {
  states_.clear();
  edges_.clear();
  index_ = std::vector<int32_t>();
  size_ = 0;
  tail_ = {};
  last_ = AddState(0, kNone);
}

int64_t SuffixAutomaton::BytesUsed() const {
  return states_.BytesUsed() + edges_.BytesUsed() +
         static_cast<int64_t>(index_.capacity() * sizeof(index_[0]));
}

void SuffixAutomaton::Append(int32_t token) {
  TAHMIN_CHECK(size_ < (1 << 30) - 1);  // 2 states a token, by 32-bit indices
  ++size_;
  const int32_t added = AddState(states_[last_].length + 1, kRootState);
  int32_t state = last_;
  while (state != kNone && FindEdge(state, token) == kNone) {
    AddEdge(state, token, added);
    state = states_[state].link;
  }
  if (state != kNone) states_[added].link = LinkOf(state, token);
  last_ = added;
  CountSuffixes(token);
}

// The state whose longest string is that of `parent` followed by `token`: if that shares its state
// with longer strings, it is parted from them, since it alone has just occurred once more.
int32_t SuffixAutomaton::LinkOf(int32_t parent, int32_t token) {
  const int32_t shared = FindEdge(parent, token);
  if (states_[shared].length == states_[parent].length + 1) return shared;
  const int32_t clone = CloneState(shared, states_[parent].length + 1);
  for (int32_t state = parent; state != kNone && FindEdge(state, token) == shared;
       state = states_[state].link) {
    RedirectEdge(state, token, clone);
  }
  states_[shared].link = clone;
  return clone;
}

int32_t SuffixAutomaton::AddState(int32_t length, int32_t link) {
  State state;
  state.length = length;
  state.link = link;
  states_.push_back(state);
  return states_.size() - 1;
}

// So far the parted strings ended together, so the counts are those of the original. No edge is
// ever removed, so all copies together are within the 3 edges a token.
int32_t SuffixAutomaton::CloneState(int32_t original, int32_t length) {
  State state = states_[original];
  state.length = length;
  const int32_t listed = std::exchange(state.first_edge, kNone);
  states_.push_back(state);
  const int32_t clone = states_.size() - 1;
  for (int32_t i = listed; i != kNone; i = edges_[i].next) {
    ListEdge(clone, {edges_[i].token, edges_[i].target});
  }
  return clone;
}

// One more occurrence for each counted suffix, and for `token` as what follows each of them.
void SuffixAutomaton::CountSuffixes(int32_t token) {
  const SuffixMatch context = Shortened(tail_, kCountedTokens - 1);
  tail_ = {FindEdge(context.state, token), context.length + 1};
  for (int32_t state = tail_.state; state != kRootState; state = states_[state].link) {
    ++states_[state].occurrences;
    states_[state].latest_end = size_;
  }
  for (int32_t state = context.state; state != kNone; state = states_[state].link) {
    Promote(states_[state], state, token);
  }
}

// `token` has just followed the state once more: moves it ahead among the top edges. Counts grow by
// one at a time, so comparing with the neighbour keeps the order, and with the last of them the
// choice.
void SuffixAutomaton::Promote(State& state, int32_t state_index, int32_t token) {
  const auto count = [&](const Edge& edge) { return states_[edge.target].occurrences; };
  Edge* const end = state.top + std::min(state.num_edges, kTopEdges);
  Edge* edge =
      std::find_if(state.top, end, [&](const Edge& other) { return other.token == token; });
  if (edge == end) {
    const Edge newcomer = {token, edges_[FindListed(state_index, token)].target};
    --edge;
    if (count(newcomer) < count(*edge)) return;
    *edge = newcomer;
  }
  for (; edge != state.top && count(*edge) >= count(edge[-1]); --edge) std::swap(*edge, edge[-1]);
}

// The last max_length tokens of the match. Also finds the state again if strings were parted from
// it since: those are in its link.
SuffixMatch SuffixAutomaton::Shortened(SuffixMatch match, int32_t max_length) const {
  match.length = std::min(match.length, max_length);
  while (match.state != kRootState && states_[states_[match.state].link].length >= match.length) {
    match.state = states_[match.state].link;
  }
  return match;
}

SuffixMatch SuffixAutomaton::OwnEnd() const {
  SuffixMatch match = Shortened(tail_, kLongestMatch);
  while (match.length > 0 && states_[match.state].occurrences < 2) match = Shorter(match);
  return match;
}

SuffixMatch SuffixAutomaton::Extend(SuffixMatch match, int32_t token) const {
  match = Shortened(match, kLongestMatch);
  int32_t target = FindEdge(match.state, token);
  while (target == kNone && match.length > 0) {
    match = Shorter(match);
    target = FindEdge(match.state, token);
  }
  if (target == kNone) return {};
  return Shortened({target, match.length + 1}, kLongestMatch);
}

SuffixMatch SuffixAutomaton::Shorter(SuffixMatch match) const {
  match = Shortened(match, match.length);
  const int32_t link = states_[match.state].link;
  if (link == kNone) return {};
  return {link, states_[link].length};
}

int32_t SuffixAutomaton::Occurrences(SuffixMatch match) const {
  return states_[Shortened(match, match.length).state].occurrences;
}

int32_t SuffixAutomaton::LatestEnd(SuffixMatch match) const {
  return states_[Shortened(match, match.length).state].latest_end;
}

// All occurrences but the one that ends the text, if there is one.
int32_t SuffixAutomaton::Continuations(SuffixMatch match) const {
  const State& state = states_[Shortened(match, match.length).state];
  return state.occurrences - (state.latest_end == size_ ? 1 : 0);
}

int32_t SuffixAutomaton::Continuations(SuffixMatch match, int32_t token) const {
  const int32_t target = FindEdge(Shortened(match, match.length).state, token);
  return target == kNone ? 0 : states_[target].occurrences;
}

std::span<const SuffixAutomaton::Edge> SuffixAutomaton::TopEdges(SuffixMatch match) const {
  const State& state = states_[Shortened(match, match.length).state];
  return std::span(state.top).first(std::min(state.num_edges, kTopEdges));
}

int32_t SuffixAutomaton::FindEdge(int32_t state_index, int32_t token) const {
  const State& state = states_[state_index];
  for (int32_t i = 0; i < std::min(state.num_edges, kTopEdges); ++i) {
    if (state.top[i].token == token) return state.top[i].target;
  }
  if (state.num_edges <= kTopEdges) return kNone;
  const int32_t listed = FindListed(state_index, token);
  return listed == kNone ? kNone : edges_[listed].target;
}

void SuffixAutomaton::AddEdge(int32_t state_index, int32_t token, int32_t target) {
  State& state = states_[state_index];
  if (state.num_edges == kTopEdges) {
    for (const Edge& edge : state.top) ListEdge(state_index, edge);
  }
  if (state.num_edges < kTopEdges) {
    state.top[state.num_edges] = {token, target};
  } else {
    ListEdge(state_index, {token, target});
  }
  ++state.num_edges;
}

void SuffixAutomaton::RedirectEdge(int32_t state_index, int32_t token, int32_t target) {
  State& state = states_[state_index];
  for (int32_t i = 0; i < std::min(state.num_edges, kTopEdges); ++i) {
    if (state.top[i].token == token) state.top[i].target = target;
  }
  if (state.num_edges > kTopEdges) edges_[FindListed(state_index, token)].target = target;
}

void SuffixAutomaton::ListEdge(int32_t state_index, Edge edge) {
  if (static_cast<size_t>(edges_.size() + 1) * 2 > index_.size()) GrowIndex();
  State& state = states_[state_index];
  edges_.push_back({state_index, edge.token, edge.target, state.first_edge});
  state.first_edge = edges_.size() - 1;
  index_[SlotOf(state_index, edge.token)] = state.first_edge;
}

int32_t SuffixAutomaton::FindListed(int32_t state, int32_t token) const {
  return index_[SlotOf(state, token)];
}

// The slot that holds the edge, or the free one where it belongs. At most half of them are taken.
size_t SuffixAutomaton::SlotOf(int32_t state, int32_t token) const {
  const size_t mask = index_.size() - 1;
  size_t slot = HashOf(state, token) & mask;
  for (; index_[slot] != kNone; slot = (slot + 1) & mask) {
    const ListedEdge& edge = edges_[index_[slot]];
    if (edge.state == state && edge.token == token) break;
  }
  return slot;
}

void SuffixAutomaton::GrowIndex() {
  index_ = std::vector<int32_t>(std::max<size_t>(64, index_.size() * 2), kNone);
  for (int32_t i = 0; i < edges_.size(); ++i) {
    index_[SlotOf(edges_[i].state, edges_[i].token)] = i;
  }
}

}  // namespace tahmin
