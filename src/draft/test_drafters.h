// Drafters that make boundaries and faults reproducible (field reports): `replay` proposes the
// tokens of an earlier plain run, so everything is accepted and a boundary can be put anywhere in a
// block; `junk` proposes wrong tokens, so every round rolls back; `script` proposes given trees at
// given steps.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "draft/drafter.h"

namespace tahmin {

// tokens: prompt and output of the earlier run. Once the sequence differs from it, it drafts
// nothing.
std::unique_ptr<Drafter> MakeReplay(std::vector<int32_t> tokens);

// Ids in [0, vocab_size) from a keyed generator, never the same twice in a row.
std::unique_ptr<Drafter> MakeJunk(int32_t vocab_size);

// trees[i] is proposed at decoding step i = 0, 1, ... (cut to the budget, ancestors kept); empty
// trees after the last. Nothing about the trees is checked: broken ones are part of what it tests.
std::unique_ptr<Drafter> MakeScript(std::vector<DraftTree> trees);

// Trees without q as plain numbers, so that a request can carry them: for each tree its number of
// nodes, then token and parent of each node.
std::vector<int32_t> EncodeScript(std::span<const DraftTree> trees);
// INVALID_ARGUMENT when the numbers end inside a tree.
absl::StatusOr<std::vector<DraftTree>> DecodeScript(std::span<const int32_t> numbers);

}  // namespace tahmin
