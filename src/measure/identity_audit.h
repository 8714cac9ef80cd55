// Compares the token ids of plain decoding with those of every drafter, draft length, thread count
// and temperature: the proof of docs/exactness.md on a given model and prompts. No tolerance
// anywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tahmin/engine.h"

namespace tahmin {

struct AuditPrompt {
  std::string id;
  std::vector<int32_t> tokens;
};

struct AuditGrid {
  std::vector<std::string>
      drafters;  // empty: every one that the loaded files allow, replay and junk too
  std::vector<int32_t> draft_max = {1, 3, 4, 8};
  std::vector<int32_t> threads = {1};
  std::vector<double> temperatures = {0.0, 0.8};
  std::vector<int32_t> seeds = {1};     // for temperatures above 0
  std::vector<int32_t> prefill_chunks;  // plain runs again with these, too
  int32_t max_tokens = 64;
};

struct AuditRow {
  std::string drafter;
  int32_t draft_max = 0;
  double temperature = 0;
  int32_t threads = 1;
  int64_t runs = 0, differences = 0;
  int64_t drafted = 0, accepted = 0;
};

struct AuditDifference {
  std::string prompt_id, drafter;
  int32_t draft_max = 0;
  double temperature = 0;
  int32_t threads = 1;
  int32_t seed = 0;
  int64_t position = 0;      // in the output
  int32_t plain_token = -1;  // -1: had ended
  int32_t speculative_token = -1;
};

struct AuditReport {
  std::vector<AuditRow> rows;
  std::vector<AuditDifference> differences;  // the first 100
  int64_t runs = 0;                          // speculative (and re-chunked plain) runs compared
  int64_t num_differences = 0;
};

// How far the audit is: one call after each (prompt, temperature, seed).
struct AuditProgress {
  int64_t done = 0, total = 0;
  std::string_view prompt_id = {};
  bool is_prompt_done = false;
  int64_t runs = 0, differences = 0;  // of this prompt so far
};

// The reference of each (prompt, temperature, seed) is one plain run with threads[0]. The other
// thread counts are audited with plain decoding as well. With a prompt's first temperature and
// seed, the first run of each drafter and thread count prefills the prompt; the other runs reuse
// it.
absl::StatusOr<AuditReport> RunIdentityAudit(
    Engine& engine, const std::vector<AuditPrompt>& prompts, const AuditGrid& grid,
    const std::function<void(const AuditProgress&)>& on_progress);

}  // namespace tahmin
