// What a bench says: one cell for each drafter and group, and the speed-up that theory predicts for
// it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bootstrap_interval.h"
#include "control/speed_theory.h"
#include "measure/interleaved_bench.h"

namespace tahmin {

struct PromptRuns {
  std::string id, group;
  std::vector<BenchRun> runs;  // of all rounds, "none" (plain decoding) among them
};

// The group that all prompts belong to.
inline constexpr char kAllGroups[] = "all";

struct BenchCell {
  std::string drafter, group;
  int32_t num_prompts = 0;  // those with a speed-up
  double speedup = 0;       // geometric mean over prompts of the median over rounds; 0: none
  Interval interval;        // 95 %, see base/bootstrap_interval.h
  double worst = 0;         // lowest median of a prompt, and its id
  std::string worst_id;
  double tokens_per_second = 0;  // geometric mean over prompts of the median over rounds
  double tokens_per_step = 0;    // over all steps
  int64_t drafted = 0;
  double acceptance = 0;                    // accepted / drafted
  std::vector<double> acceptance_by_depth;  // accepted / tested
  int64_t num_different = 0;  // runs whose ids are not plain decoding's; their times do not count
  // Geometric mean over prompts of tokens per step / (draft_ms of a step / plain step + mean
  // T(1 + drafted) / T(1)); 0: no curve of the group, or nothing drafted.
  double predicted_speedup = 0;
};

// T(n)/T(1) by group.
using GroupCurves = std::map<std::string, VerifyCostCurve>;

// Drafters in the order of the runs, for each of them the groups in the order of the prompts and
// then kAllGroups.
std::vector<BenchCell> SummarizeBench(const std::vector<PromptRuns>& prompts,
                                      const GroupCurves& curves);

// Measures what SummarizeBench needs to predict: T(n) at the group's mean context, for the row
// counts that its steps had. Takes a few seconds; best right behind the group's runs, since the
// speed of a machine's memory changes.
absl::StatusOr<VerifyCostCurve> MeasureGroupCurve(Engine& engine,
                                                  std::span<const PromptRuns> prompts,
                                                  const std::string& group, KvType kv_type);

}  // namespace tahmin
