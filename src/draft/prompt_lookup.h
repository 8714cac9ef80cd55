// `lookup`: prompt lookup decoding. The longest n-gram (max_ngram down to min_ngram) that ends the
// sequence is searched in prompt + output; the tokens that followed its latest earlier occurrence
// are the guess (a chain). An index of n-grams is kept up to date, so a step costs O(new tokens),
// not O(length). Saxena, "Prompt lookup decoding" (2023), as in transformers'
// prompt_lookup_num_tokens; we take the latest occurrence.
#pragma once

#include <memory>

#include "draft/drafter.h"

namespace tahmin {

std::unique_ptr<Drafter> MakePromptLookup(int32_t min_ngram, int32_t max_ngram);

}  // namespace tahmin
