// Times drafters against plain decoding on a prompt: rounds in which every setting runs once, in
// alternating order, so that the machine's drift hits all alike. The ids are compared before any
// time counts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tahmin/engine.h"

namespace tahmin {

struct BenchSetting {
  std::string name;  // as reported: "lookup", "draft@7"
  DraftOptions draft;
};

struct BenchRun {
  std::string drafter;
  int32_t round = 0;
  bool is_identical = false;  // ids equal plain decoding's of the same round
  std::vector<int32_t> tokens;
  GenerationStats stats;
  double speedup = 0;  // plain decode_ms / decode_ms, same round; 0: no comparison
};

struct BenchOptions {
  std::vector<BenchSetting> settings;  // plain decoding is added as "none"
  GenerationOptions generation;
  int32_t rounds = 3;
};

// Whether every drafter is promised plain decoding's ids. Not when sampling under the rejection
// rule: there each drafter writes another draw.
bool WritesPlainText(const GenerationOptions& options);

// All rounds of one prompt. Within a round: plain first and the settings in order, next round the
// other way round. The seed is fixed by the caller (sampling.seed set), else 0 is used.
absl::StatusOr<std::vector<BenchRun>> BenchPrompt(Engine& engine,
                                                  const std::vector<int32_t>& prompt,
                                                  const BenchOptions& options,
                                                  const std::function<void()>& on_run);

}  // namespace tahmin
