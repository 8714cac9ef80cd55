// What a target, and its draft model, have to say about some texts, written down once, so that
// policies can be compared on them without models and without a clock (simulate_auto.cc). Written
// by record_texts.cc. Plain values.
//
// The file holds JSON lines. The first one is
//   {"format": "tahmin-text-record", "version": 1, "target": NAME, "draft": NAME or "",
//    "vocab_size": N, "max_tokens": N}
// and each further one is a text, TextRecord below:
//   {"id": ..., "group": ..., "prompt": [ID, ...], "output": [ID, ...],
//    "rows": [[ID, LOGPROB, ID, LOGPROB, ...], ...],
//    "drafts": [[ID, CONFIDENCE, ID, CONFIDENCE, ...], ...]}
// where the pairs of a draft are first choice, second choice, then the wrong path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "sampling/logprobs.h"

namespace tahmin::bench {

struct RecordHeader {
  std::string target;      // file names
  std::string draft;       // empty: no draft model
  int32_t vocab_size = 0;  // ids that may be drawn
  int32_t max_tokens = 0;  // a text of fewer tokens has ended by itself
};

struct DraftGuess {
  int32_t token = 0;
  float confidence = 0;
};

// What the draft model guesses behind one output token. Behind a first choice that is right it
// would write what it writes behind the next output token, so only what follows a wrong one is
// kept.
struct RecordedDraft {
  DraftGuess first, second;
  std::vector<DraftGuess> wrong_path = {};  // behind a wrong first choice, greedily
};

struct TextRecord {
  std::string id, group;
  std::vector<int32_t> prompt = {};
  // Greedy, at least two; with the end token, where the text ended by itself.
  std::vector<int32_t> output = {};
  // Behind each output token but the last: the target's likeliest tokens, the likeliest first,
  // which is the next output token.
  std::vector<std::vector<TokenLogprob>> rows = {};
  std::vector<RecordedDraft> drafts = {};  // likewise; empty without a draft model
};

struct RecordedTexts {
  RecordHeader header;
  std::vector<TextRecord> texts;
};

// One line, with its end.
std::string ToLine(const RecordHeader& header);
std::string ToLine(const TextRecord& text);

// INVALID_ARGUMENT, with the line and what was expected there, for what is no record.
absl::StatusOr<RecordedTexts> ParseTextRecords(std::string_view file);
// The same for a file by name; NOT_FOUND, if it cannot be read. Messages begin with the path.
absl::StatusOr<RecordedTexts> ReadTextRecords(const std::string& path);

}  // namespace tahmin::bench
