// Decides, one token at a time and in order, whether generation ends: end tokens, stop strings,
// length. Text that may turn out to be the start of a stop string is held back, so nothing of a
// stop string is ever streamed. The text depends on the bytes only, never on how they were cut into
// tokens or blocks. One object per request; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stream/text_stream.h"

namespace tahmin {

enum class FinishReason { kNone, kStop, kLength, kCancelled };

std::string_view FinishReasonName(FinishReason reason);  // "", "stop", "length", "cancelled"

struct StopConfig {
  std::vector<int32_t> end_tokens;
  // Empty strings and those that are not valid UTF-8 (the text always is) never match.
  std::vector<std::string> stop_strings;
  int64_t max_tokens = -1;  // -1: none
};

// What one committed token did.
struct TokenOutcome {
  std::string delta;                          // text that may be shown now
  FinishReason finish = FinishReason::kNone;  // != kNone: this was the last token
  // False for an end token: neither id nor text is kept. After a stop string num_output_tokens()
  // says how many of the tokens so far are kept.
  bool is_part_of_output = true;
};

class StopConditions {
 public:
  explicit StopConditions(StopConfig config);

  // `bytes` are the token's bytes (special tokens rendered as nothing). An end token finishes with
  // kStop and its text is dropped. A stop string finishes with kStop as soon as its last character
  // is there; the text ends just before it (of several that end at the same character, before the
  // longest). The max_tokens-th token finishes with kLength unless it already finished with kStop.
  // Not to be called once finished.
  TokenOutcome Commit(int32_t token, std::string_view bytes);

  // Ends the stream from outside (context full, cancelled): what was held back is released and
  // returned. Nothing happens when it has ended already.
  std::string Finish(FinishReason reason);

  // Tokens whose text is (at least partly) inside the final text, counted from the first: after a
  // stop string, tokens that lie wholly inside it are not output. Valid once finished.
  int64_t num_output_tokens() const { return num_output_tokens_; }
  const std::string& text() const { return text_; }  // all text released so far
  FinishReason finish() const { return finish_; }

 private:
  size_t StartOf(std::string_view bytes) const;
  bool HoldAndMatch(std::string_view new_text);
  size_t LongestStopEndingAt(size_t end) const;
  size_t NumHeldBytes() const;
  void End(FinishReason reason, int64_t num_kept_tokens);

  StopConfig config_;
  Utf8Assembler assembler_;
  std::string text_;                  // released
  std::string held_;                  // complete characters that may begin a stop string
  std::vector<size_t> token_starts_;  // where in the text each token's first character begins
  int64_t num_output_tokens_ = 0;
  FinishReason finish_ = FinishReason::kNone;
};

}  // namespace tahmin
