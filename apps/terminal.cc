#include "apps/terminal.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "fmt/format.h"

namespace tahmin::cli {

namespace {

std::atomic<bool> interrupted{false};
struct sigaction previous_action;

void OnInterrupt(int) {
  if (interrupted.exchange(true)) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
}

constexpr char kGreen[] = "\x1b[32m";
constexpr char kReset[] = "\x1b[0m";

}  // namespace

bool StdinIsTerminal() { return isatty(STDIN_FILENO) == 1; }
bool StderrIsTerminal() { return isatty(STDERR_FILENO) == 1; }
bool StdoutIsTerminal() { return isatty(STDOUT_FILENO) == 1; }

void ShowProgress(std::string_view what, uint64_t done, uint64_t total) {
  if (!StderrIsTerminal()) return;
  if (done >= total) {
    fmt::print(stderr, "\r\x1b[K");
  } else {
    fmt::print(stderr, "\r{} {:3d} %", what, static_cast<int>(100.0 * done / total));
  }
  std::fflush(stderr);
}

void PrintAboveProgress(std::string_view line) {
  if (StderrIsTerminal()) fmt::print(stderr, "\r\x1b[K{}\n", line);
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes >= 1'000'000'000) return fmt::format("{:.2f} GB", bytes / 1e9);
  if (bytes >= 1'000'000) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.1f} kB", bytes / 1e3);
}

void PrintMemoryPlan(const MemoryPlan& plan) {
  fmt::print(stderr, "memory plan: {}", FormatBytes(plan.total_bytes));
  std::string_view separator = " = ";
  for (const MemoryPlanRow& row : plan.rows) {
    fmt::print(stderr, "{}{} {}", separator, row.name, FormatBytes(row.bytes));
    separator = ", ";
  }
  fmt::print(stderr, "\n");
}

bool TextPrinter::Print(const TokenEvent& event) {
  if (event.text_delta.empty()) return true;
  if (use_color_ && event.was_drafted != is_colored_) {
    std::fputs(event.was_drafted ? kGreen : kReset, stdout);
    is_colored_ = event.was_drafted;
  }
  std::fwrite(event.text_delta.data(), 1, event.text_delta.size(), stdout);
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
}

void TextPrinter::Finish() {
  if (is_colored_) std::fputs(kReset, stdout);
  is_colored_ = false;
  std::fflush(stdout);
}

void NoteFullDraftContext(const GenerationStats& stats, int64_t draft_context_tokens) {
  if (stats.draft_context_full_steps == 0) return;
  fmt::print(
      stderr,
      "tahmin: note: the draft model's context of {} tokens was full: {} of {} steps drafted "
      "nothing; --ctx-size-draft makes it larger\n",
      draft_context_tokens, stats.draft_context_full_steps, stats.steps);
}

namespace {

void PrintShare(const DrafterStats& share) {
  fmt::print(stderr, "  {}: asked {} times, {} of {} accepted, {:.1f} ms drafting", share.name,
             share.calls, share.accepted, share.drafted, share.draft_ms);
  if (share.won_ms != 0) fmt::print(stderr, ", about {:.0f} ms won", share.won_ms);
  fmt::print(stderr, "; right by depth:");
  for (size_t i = 0; i < share.tested_by_depth.size(); ++i) {
    fmt::print(stderr, " {}/{}", share.accepted_by_depth[i], share.tested_by_depth[i]);
  }
  fmt::print(stderr, "\n");
}

}  // namespace

void PrintStats(const GenerationResult& result, std::string_view drafter, int32_t num_threads) {
  const GenerationStats& stats = result.stats;
  fmt::print(stderr, "prompt: {} tokens, prefill {:.1f} ms", stats.prompt_tokens, stats.prefill_ms);
  if (stats.cached_prompt_tokens > 0) {
    fmt::print(stderr, " ({} tokens reused)", stats.cached_prompt_tokens);
  }
  fmt::print(stderr, ", first token after {:.1f} ms\n", stats.ttft_ms);
  fmt::print(stderr,
             "output: {} tokens, {:.2f} tokens/s with {} threads, {} steps, {:.2f} tokens per "
             "step, ended by {}, "
             "seed {}\n",
             stats.generated_tokens, stats.TokensPerSecond(), num_threads, stats.steps,
             stats.TokensPerStep(), result.finish_reason, result.seed);
  if (stats.drafted == 0) {
    fmt::print(stderr, "drafter {}: nothing drafted\n", drafter);
    return;
  }
  fmt::print(stderr,
             "drafter {}: {} of {} draft tokens accepted ({:.1f} %), {:.1f} ms drafting; by depth:",
             drafter, stats.accepted, stats.drafted, 100.0 * stats.AcceptanceRate(),
             stats.draft_ms);
  for (double rate : stats.AcceptanceByDepth()) fmt::print(stderr, " {:.2f}", rate);
  fmt::print(stderr, "\n");
  const bool has_shares = stats.drafters.size() > 1 || drafter == "auto";
  for (size_t i = 0; has_shares && i < stats.drafters.size(); ++i) PrintShare(stats.drafters[i]);
}

InterruptScope::InterruptScope() {
  interrupted.store(false);
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &previous_action);
}

InterruptScope::~InterruptScope() { sigaction(SIGINT, &previous_action, nullptr); }

const std::atomic<bool>* InterruptScope::flag() const { return &interrupted; }

void InterruptScope::Set() { interrupted.store(true); }

}  // namespace tahmin::cli
