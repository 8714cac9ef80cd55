// `rest`: retrieval from a datastore of texts (datastore.h). The longest end of the sequence that
// occurs in the store is looked up in every chunk's suffix array; what followed it there makes a
// trie of continuations, each counted, and the nodes of best estimated survival are the draft. No
// occurrence, no draft. It knows nothing but the last tokens, so Begin and Observe do nothing.
//
// He, Zhong, Cai, Lee and He, "REST: Retrieval-Based Speculative Decoding" (arXiv 2311.08252).
// Where we differ: documents are separated, so a draft never runs from one text into the next; of
// many occurrences a sample spread evenly over the suffix order is read, not the first ones, which
// would all begin alike; the draft is a real trie with fixed tie-breaks; and a store without an
// occurrence drafts nothing rather than a dummy token.
#pragma once

#include <memory>

#include "draft/datastore.h"
#include "draft/drafter.h"

namespace tahmin {

struct RestOptions {
  int32_t longest_match = 16;  // tokens of the sequence's end that are looked for
  int32_t shortest_match = 2;  // a shorter match drafts nothing
  int32_t most_hits = 64;      // occurrences of one match length that are read
};

// `store` must outlive the drafter and be of the target's tokenizer. 1 <= shortest_match <=
// longest_match; most_hits >= 1.
std::unique_ptr<Drafter> MakeRest(const Datastore& store, RestOptions options = {});

}  // namespace tahmin
