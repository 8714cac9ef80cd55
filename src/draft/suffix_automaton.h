// An online suffix automaton over token ids: every string of tokens that occurs in a growing text,
// how often it occurs, and what follows it how often. `suffix` drafts from it (suffix.h); a store
// of earlier outputs is made of them (suffix_store.h). It lives as long as its text, cannot forget,
// and is not thread-safe.
//
// Blumer et al., "The smallest automaton recognizing the subwords of a text" (1985), used for
// drafting in "SAM Decoding" (2411.10666). There a state knows one end position; here it also knows
// its number of occurrences, exact after every Append. An occurrence of a string is one of all its
// suffixes too, and there may be as many states of suffixes as tokens, so counts are kept for
// strings of at most kCountedTokens tokens: that is as many states a token at the worst, and a
// handful in real text.
//
// States: at most 2 a token. Edges: at most 3 a token. The most frequent kTopEdges edges of a state
// are stored in it; a state that has more keeps all of them in one hash table of the automaton.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "draft/chunked_array.h"

namespace tahmin {

// A string that occurs in an automaton's text, by its state and number of tokens. A match stays
// valid while the automaton grows; length 0 is the empty string, which matches nothing.
struct SuffixMatch {
  int32_t state = 0;
  int32_t length = 0;
};

class SuffixAutomaton {
 public:
  static constexpr int32_t kCountedTokens = 64;                 // longest string that is counted
  static constexpr int32_t kLongestMatch = kCountedTokens - 1;  // one more token follows it
  static constexpr int32_t kTopEdges = 4;

  struct Edge {
    int32_t token = 0;
    int32_t target = 0;
  };

  SuffixAutomaton() { Clear(); }

  // Any id; at most 2^30 - 1 tokens. Amortised O(kCountedTokens) at the worst.
  void Append(int32_t token);
  void Clear();
  int32_t size() const { return size_; }  // tokens
  int64_t BytesUsed() const;              // of everything it holds on the heap

  // The longest suffix of the text, of at most kLongestMatch tokens, that also ends further ahead.
  SuffixMatch OwnEnd() const;
  // The match of a text that is read beside this one, a token later: the longest suffix of
  // `match` + `token` that occurs here, of at most kLongestMatch tokens. Amortised O(1) over the
  // tokens read. Begin with SuffixMatch{}.
  SuffixMatch Extend(SuffixMatch match, int32_t token) const;
  // The longest suffix of the match that occurs more often; length 0: there is none.
  SuffixMatch Shorter(SuffixMatch match) const;

  // All counts are exact.
  int32_t Occurrences(SuffixMatch match) const;
  // Index just behind the latest occurrence.
  int32_t LatestEnd(SuffixMatch match) const;
  // Occurrences that a token follows, and those that `token` follows.
  int32_t Continuations(SuffixMatch match) const;
  int32_t Continuations(SuffixMatch match, int32_t token) const;
  // The kTopEdges most frequent tokens that follow, the most frequent first; among equals the one
  // that followed last comes first. Valid until the next Append.
  std::span<const Edge> TopEdges(SuffixMatch match) const;

 private:
  struct State {
    int32_t length = 0;  // of its longest string
    int32_t link = -1;   // state of the longest suffix with other ends; -1: of the empty string
    int32_t occurrences = 0;
    int32_t latest_end = 0;
    int32_t num_edges = 0;
    int32_t first_edge = -1;  // into edges_ if num_edges > kTopEdges: then all edges are there
    Edge top[kTopEdges];      // in the order of TopEdges
  };
  struct ListedEdge {
    int32_t state, token, target;
    int32_t next;  // of the same state, -1: none
  };

  int32_t AddState(int32_t length, int32_t link);
  int32_t CloneState(int32_t state, int32_t length);
  int32_t LinkOf(int32_t parent, int32_t token);
  void CountSuffixes(int32_t token);
  void Promote(State& state, int32_t state_index, int32_t token);
  SuffixMatch Shortened(SuffixMatch match, int32_t max_length) const;

  int32_t FindEdge(int32_t state, int32_t token) const;  // its target or -1
  void AddEdge(int32_t state, int32_t token, int32_t target);
  void RedirectEdge(int32_t state, int32_t token, int32_t target);
  void ListEdge(int32_t state, Edge edge);
  int32_t FindListed(int32_t state, int32_t token) const;  // into edges_, or -1
  size_t SlotOf(int32_t state, int32_t token) const;
  void GrowIndex();

  ChunkedArray<State> states_;  // 0: the empty string
  ChunkedArray<ListedEdge> edges_;
  std::vector<int32_t> index_;  // open addressing by (state, token): into edges_, -1: free
  int32_t size_ = 0;
  int32_t last_ = 0;  // state of the whole text
  SuffixMatch tail_;  // the text's last min(size, kCountedTokens) tokens
};

}  // namespace tahmin
