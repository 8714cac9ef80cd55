// `lookup`: prompt lookup decoding. The longest n-gram (max_ngram down to min_ngram) that ends the
// sequence is searched in prompt + output; the tokens that followed its latest earlier occurrence
// are the guess (a chain). An index of n-grams is kept up to date, so a step costs O(new tokens),
// not O(length). Saxena, "Prompt lookup decoding" (2023), as in transformers'
// prompt_lookup_num_tokens; we take the latest occurrence.
// The confidence of a token grows with the number of tokens in front of it that agree, those of
// the draft included (see the source), so a controller can tell a copy from a coincidence.
#pragma once

#include <memory>

#include "draft/drafter.h"

namespace tahmin {

std::unique_ptr<Drafter> MakePromptLookup(int32_t min_ngram, int32_t max_ngram);

}  // namespace tahmin
