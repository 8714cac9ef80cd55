// Makes the record of a text: the engine writes it greedily, then one pass of the target over all
// of it gives the rows, and the draft model, loaded as the engine loads it, is asked behind every
// output token. One object for all texts of a file; not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/control/text_record.h"
#include "measure/prompt_file.h"
#include "tahmin/engine.h"
#include "tokenizer/chat_template.h"

namespace tahmin::bench {

class TextRecorder {
 public:
  // options: the models; the drafter is chosen here, since the text does not depend on it.
  static absl::StatusOr<std::unique_ptr<TextRecorder>> Create(EngineOptions options,
                                                              int32_t max_tokens);

  RecordHeader Header() const;

  // Of the first turn, as `tahmin bench` does. OUT_OF_RANGE: the answer has no second token, so
  // there is nothing to draft. INTERNAL: the target's own pass contradicts what the engine wrote.
  absl::StatusOr<TextRecord> Record(const PromptEntry& prompt);

 private:
  TextRecorder(EngineOptions options, int32_t max_tokens);

  int32_t VocabSize() const;  // ids that may be drawn
  absl::Status Answer(const std::string& question, TextRecord* text, bool* has_ended);
  absl::Status AddRows(bool has_ended, TextRecord* text);
  absl::Status AddDrafts(TextRecord* text);

  const EngineOptions options_;
  const int32_t max_tokens_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<ChatTemplate> template_;
};

}  // namespace tahmin::bench
