// What a person sees while waiting: progress lines on a terminal, nothing in a pipe; colours only
// where they were asked for. All of it goes to stderr.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "tahmin/engine.h"

namespace tahmin::cli {

bool StdinIsTerminal();
bool StderrIsTerminal();
bool StdoutIsTerminal();

// Text for people, where the progress line stands; nothing in a pipe.
void PrintAboveProgress(std::string_view line);

// Redraws one line "<what> 42 %", cleared by the last call (done == total).
void ShowProgress(std::string_view what, uint64_t done, uint64_t total);

std::string FormatBytes(uint64_t bytes);  // "1.04 GB"

void PrintMemoryPlan(const MemoryPlan& plan);

// Text as it is streamed; drafted and accepted tokens green when coloured.
class TextPrinter {
 public:
  explicit TextPrinter(bool use_color) : use_color_(use_color) {}
  bool Print(const TokenEvent& event);  // false: the output takes no more
  void Finish();

 private:
  bool use_color_;
  bool is_colored_ = false;
};

// Says, once a generation is over, that the draft model's context was too small for it.
void NoteFullDraftContext(const GenerationStats& stats, int64_t draft_context_tokens);

void PrintStats(const GenerationResult& result, std::string_view drafter, int32_t num_threads);

// What a shell reports for a program that Ctrl-C ended.
inline constexpr int kInterruptedExitCode = 130;

// Ctrl-C sets the flag instead of ending the program, while an object of this type lives. A second
// Ctrl-C before the flag is read ends the program as usual.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  const std::atomic<bool>* flag() const;
  void Set();  // as Ctrl-C would
};

}  // namespace tahmin::cli
