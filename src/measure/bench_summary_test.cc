#include "measure/bench_summary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace tahmin {
namespace {

// A run of `steps` steps that each submit `drafted` tokens, of which `accepted` in all are taken.
BenchRun Run(const std::string& drafter, int32_t round, int64_t steps, int32_t drafted,
             int64_t accepted, double decode_ms, double speedup) {
  BenchRun run;
  run.drafter = drafter;
  run.round = round;
  run.is_identical = speedup > 0;
  run.speedup = speedup;
  run.stats.steps = steps;
  run.stats.drafted = steps * drafted;
  run.stats.accepted = accepted;
  run.stats.generated_tokens = steps + accepted;
  run.stats.steps_by_drafted.assign(drafted + 1, 0);
  run.stats.steps_by_drafted[drafted] = steps;
  run.stats.tested_by_depth = {steps};
  run.stats.accepted_by_depth = {accepted};
  run.stats.decode_ms = decode_ms;
  run.stats.verify_ms = decode_ms;
  return run;
}

std::vector<PromptRuns> TwoPrompts() {
  std::vector<PromptRuns> prompts = {{"a", "code", {}}, {"b", "prose", {}}};
  for (int32_t round = 0; round < 3; ++round) {
    // 20 plain steps of 10 ms each.
    prompts[0].runs.push_back(Run("none", round, 20, 0, 0, 200, 1));
    prompts[0].runs.push_back(Run("draft@1", round, 10, 1, 10, 100, 1.9 + 0.1 * round));
    prompts[1].runs.push_back(Run("none", round, 20, 0, 0, 200, 1));
    prompts[1].runs.push_back(Run("draft@1", round, 16, 1, 4, 250, 0.5));
  }
  prompts[0].runs[1].stats.draft_ms = prompts[0].runs[3].stats.draft_ms =
      prompts[0].runs[5].stats.draft_ms = 25;  // 2.5 ms a step
  return prompts;
}

const BenchCell& Find(const std::vector<BenchCell>& cells, const std::string& drafter,
                      const std::string& group) {
  for (const BenchCell& cell : cells)
    if (cell.drafter == drafter && cell.group == group) return cell;
  ADD_FAILURE() << drafter << " " << group;
  return cells[0];
}

TEST(BenchSummary, MedianOverRoundsGeometricMeanOverPromptsAndTheWorst) {
  const auto cells = SummarizeBench(TwoPrompts(), {});
  ASSERT_EQ(cells.size(), 6u);  // two drafters, two groups and all
  const BenchCell& code = Find(cells, "draft@1", "code");
  EXPECT_NEAR(code.speedup, 2.0, 1e-12);
  EXPECT_NEAR(code.tokens_per_step, 2.0, 1e-12);
  EXPECT_NEAR(code.acceptance, 1.0, 1e-12);
  EXPECT_GE(code.interval.low, 1.9 - 1e-9);
  EXPECT_LE(code.interval.high, 2.1 + 1e-9);
  EXPECT_LT(code.interval.low, code.interval.high);
  const BenchCell& all = Find(cells, "draft@1", kAllGroups);
  EXPECT_EQ(all.num_prompts, 2);
  EXPECT_NEAR(all.speedup, 1.0, 1e-12);  // of 2 and 0.5
  EXPECT_EQ(all.worst_id, "b");
  EXPECT_NEAR(all.worst, 0.5, 1e-12);
  EXPECT_EQ(all.predicted_speedup, 0);  // no curves
}

TEST(BenchSummary, PredictsFromAcceptanceDraftTimeAndTheCurve) {
  const GroupCurves curves = {{"code", {{{1, 1.0}, {2, 1.25}}}}, {"prose", {{{1, 1.0}, {2, 1.5}}}}};
  const auto cells = SummarizeBench(TwoPrompts(), curves);
  // 2 tokens a step; a step costs 2.5 ms of drafting, a quarter of a plain step, and 1.25 for its
  // pass.
  EXPECT_NEAR(Find(cells, "draft@1", "code").predicted_speedup, 2 / 1.5, 1e-12);
  EXPECT_NEAR(Find(cells, "draft@1", "prose").predicted_speedup, 1.25 / 1.5, 1e-12);
  EXPECT_NEAR(Find(cells, "draft@1", kAllGroups).predicted_speedup, std::sqrt(2 / 1.5 * 1.25 / 1.5),
              1e-12);
  EXPECT_EQ(Find(cells, "none", "code").predicted_speedup, 0);
}

TEST(BenchSummary, TimesOfOtherTextDoNotCount) {
  std::vector<PromptRuns> prompts = TwoPrompts();
  for (BenchRun& run : prompts[1].runs) {
    if (run.drafter != "draft@1") continue;
    run.is_identical = false;
    run.speedup = 0;
  }
  const auto cells = SummarizeBench(prompts, {});
  const BenchCell& all = Find(cells, "draft@1", kAllGroups);
  EXPECT_EQ(all.num_prompts, 1);
  EXPECT_EQ(all.num_different, 3);
  EXPECT_NEAR(all.speedup, 2.0, 1e-12);
  EXPECT_EQ(Find(cells, "draft@1", "prose").num_prompts, 0);
  EXPECT_EQ(Find(cells, "draft@1", "prose").speedup, 0);
}

}  // namespace
}  // namespace tahmin
