// A made-up text for the tests here: the output goes round in a circle of four tokens, the target
// is sure of it, and the draft model is always right, unless a test changes that.
#pragma once

#include "bench/control/text_record.h"

namespace tahmin::bench {

inline RecordedTexts CircleTexts(int32_t num_output) {
  RecordedTexts record;
  record.header = {
      .target = "target.gguf", .draft = "draft.gguf", .vocab_size = 32, .max_tokens = num_output};
  TextRecord text{.id = "circle", .group = "code", .prompt = {1, 2, 3}};
  for (int32_t i = 0; i < num_output; ++i) text.output.push_back(4 + i % 4);
  for (int32_t i = 1; i < num_output; ++i) {
    text.rows.push_back({{text.output[i], -0.25f}, {9, -3.0f}});
    text.drafts.push_back({.first = {text.output[i], 0.75f}, .second = {10, 0.125f}});
  }
  record.texts.push_back(text);
  return record;
}

}  // namespace tahmin::bench
