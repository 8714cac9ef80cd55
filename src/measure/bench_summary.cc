#include "measure/bench_summary.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <span>

#include "base/median.h"
#include "base/status_macros.h"
#include "measure/cost_curve.h"
#include "tokenizer/tokenizer.h"

namespace tahmin {

namespace {

constexpr char kPlain[] = "none";
constexpr int32_t kCurveRounds = 5;
constexpr double kRareSteps = 0.02;  // row counts of fewer steps are interpolated

// Sums over the runs of one drafter on one group.
struct Sums {
  std::vector<std::vector<double>> speedups;  // by prompt, by round
  std::vector<std::string> prompt_ids;
  std::vector<double> tokens_per_second;  // one median a prompt
  double committed = 0, draft_ms = 0, verify_ms = 0;
  int64_t drafted = 0, accepted = 0, steps = 0, different = 0;
  std::vector<int64_t> tested_by_depth, accepted_by_depth, steps_by_drafted;
};

void AddTo(const std::vector<int64_t>& from, std::vector<int64_t>* to) {
  if (to->size() < from.size()) to->resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) (*to)[i] += from[i];
}

Sums AddUp(std::span<const PromptRuns> prompts, const std::string& drafter,
           const std::string& group) {
  Sums sums;
  for (const PromptRuns& prompt : prompts) {
    if (group != kAllGroups && prompt.group != group) continue;
    std::vector<double> speedups, speeds;
    for (const BenchRun& run : prompt.runs) {
      if (run.drafter != drafter) continue;
      sums.drafted += run.stats.drafted;
      sums.accepted += run.stats.accepted;
      sums.steps += run.stats.steps;
      sums.committed += run.stats.TokensPerStep() * static_cast<double>(run.stats.steps);
      sums.draft_ms += run.stats.draft_ms;
      sums.verify_ms += run.stats.verify_ms;
      AddTo(run.stats.tested_by_depth, &sums.tested_by_depth);
      AddTo(run.stats.accepted_by_depth, &sums.accepted_by_depth);
      AddTo(run.stats.steps_by_drafted, &sums.steps_by_drafted);
      sums.different += run.is_identical ? 0 : 1;
      if (run.speedup <= 0) continue;
      speedups.push_back(run.speedup);
      speeds.push_back(run.stats.TokensPerSecond());
    }
    if (speedups.empty()) continue;
    sums.tokens_per_second.push_back(Median(speeds));
    sums.speedups.push_back(std::move(speedups));
    sums.prompt_ids.push_back(prompt.id);
  }
  return sums;
}

double Predict(const Sums& sums, const Sums& plain, const VerifyCostCurve& curve) {
  if (sums.steps == 0 || sums.drafted == 0 || plain.steps == 0 || plain.verify_ms <= 0) return 0;
  const double plain_step_ms = plain.verify_ms / static_cast<double>(plain.steps);
  const double steps = static_cast<double>(sums.steps);
  return PredictedSpeedupOfSteps(sums.committed / steps, sums.steps_by_drafted,
                                 sums.draft_ms / steps / plain_step_ms, curve);
}

// By prompt, as the measured speed-ups are, for those of the group that have one; a prompt for
// which nothing was drafted runs as plain decoding. Empty: nothing was drafted for any.
std::vector<double> PredictByPrompt(std::span<const PromptRuns> prompts, const std::string& drafter,
                                    const std::string& group, const VerifyCostCurve& curve) {
  std::vector<double> predictions;
  bool has_drafted = false;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto one = prompts.subspan(i, 1);
    const Sums sums = AddUp(one, drafter, group);
    if (sums.speedups.empty()) continue;
    const double predicted = Predict(sums, AddUp(one, kPlain, group), curve);
    has_drafted |= predicted > 0;
    predictions.push_back(predicted > 0 ? predicted : 1.0);
  }
  if (!has_drafted) predictions.clear();
  return predictions;
}

BenchCell MakeCell(const Sums& sums) {
  BenchCell cell;
  cell.num_prompts = static_cast<int32_t>(sums.speedups.size());
  std::vector<double> medians;
  for (size_t i = 0; i < sums.speedups.size(); ++i) {
    medians.push_back(Median(sums.speedups[i]));
    if (i > 0 && medians[i] >= cell.worst) continue;
    cell.worst = medians[i];
    cell.worst_id = sums.prompt_ids[i];
  }
  cell.speedup = GeometricMean(medians);
  cell.interval = BootstrapInterval(sums.speedups);
  cell.tokens_per_second = GeometricMean(sums.tokens_per_second);
  if (sums.steps > 0) cell.tokens_per_step = sums.committed / static_cast<double>(sums.steps);
  cell.drafted = sums.drafted;
  if (sums.drafted > 0) {
    cell.acceptance = static_cast<double>(sums.accepted) / static_cast<double>(sums.drafted);
  }
  for (size_t i = 0; i < sums.tested_by_depth.size(); ++i) {
    const double tested = static_cast<double>(std::max<int64_t>(1, sums.tested_by_depth[i]));
    const int64_t accepted =
        i < sums.accepted_by_depth.size() ? sums.accepted_by_depth[i] : int64_t{0};
    cell.acceptance_by_depth.push_back(static_cast<double>(accepted) / tested);
  }
  cell.num_different = sums.different;
  return cell;
}

// Each once, in the order of first appearance.
void AddOnce(const std::string& name, std::vector<std::string>* names) {
  if (std::find(names->begin(), names->end(), name) == names->end()) names->push_back(name);
}

}  // namespace

std::vector<BenchCell> SummarizeBench(const std::vector<PromptRuns>& prompts,
                                      const GroupCurves& curves) {
  std::vector<std::string> drafters, groups;
  for (const PromptRuns& prompt : prompts) {
    AddOnce(prompt.group, &groups);
    for (const BenchRun& run : prompt.runs) AddOnce(run.drafter, &drafters);
  }
  std::vector<BenchCell> cells;
  for (const std::string& drafter : drafters) {
    std::vector<double> predictions;  // one a prompt
    bool has_prediction = false;
    for (const std::string& group : groups) {
      const Sums sums = AddUp(prompts, drafter, group);
      BenchCell cell = MakeCell(sums);
      if (const auto curve = curves.find(group); curve != curves.end()) {
        std::vector<double> of_group = PredictByPrompt(prompts, drafter, group, curve->second);
        if (!of_group.empty()) cell.predicted_speedup = GeometricMean(of_group);
        has_prediction |= !of_group.empty();
        if (of_group.empty()) of_group.assign(cell.num_prompts, 1.0);
        predictions.insert(predictions.end(), of_group.begin(), of_group.end());
      }
      cell.drafter = drafter;
      cell.group = group;
      cells.push_back(std::move(cell));
    }
    BenchCell all = MakeCell(AddUp(prompts, drafter, kAllGroups));
    all.drafter = drafter;
    all.group = kAllGroups;
    if (has_prediction) all.predicted_speedup = GeometricMean(predictions);
    cells.push_back(std::move(all));
  }
  return cells;
}

absl::StatusOr<VerifyCostCurve> MeasureGroupCurve(Engine& engine,
                                                  std::span<const PromptRuns> prompts,
                                                  const std::string& group, KvType kv_type) {
  int64_t context = 0, num_runs = 0, steps = 0;
  std::vector<int64_t> steps_by_drafted;
  for (const PromptRuns& prompt : prompts) {
    if (prompt.group != group) continue;
    for (const BenchRun& run : prompt.runs) {
      context += run.stats.prompt_tokens + run.stats.generated_tokens / 2;
      num_runs += 1;
      steps += run.stats.steps;
      AddTo(run.stats.steps_by_drafted, &steps_by_drafted);
    }
  }
  std::set<int32_t> rows = {1, 2};
  for (size_t n = 0; n < steps_by_drafted.size(); ++n) {
    const bool is_last = n + 1 == steps_by_drafted.size();
    if (is_last || steps_by_drafted[n] > kRareSteps * static_cast<double>(steps))
      rows.insert(static_cast<int32_t>(n) + 1);
  }
  TAHMIN_ASSIGN_OR_RETURN(const std::vector<int32_t> text,
                          engine.tokenizer().Tokenize(std::string(CostCurveText()), {}));
  CostCurveOptions options;
  options.rows.assign(rows.begin(), rows.end());
  options.context = num_runs == 0 ? 0 : context / num_runs;
  options.rounds = kCurveRounds;
  options.kv_type = kv_type;
  options.with_limits = false;
  TAHMIN_ASSIGN_OR_RETURN(
      const CostCurve measured,
      MeasureCostCurve(engine.model(), text, options, engine.pool(), [](int64_t, int64_t) {}));
  VerifyCostCurve curve;
  for (const CurvePoint& point : measured.points)
    curve.points.push_back({point.rows, point.ms / measured.points[0].ms});
  return curve;
}

}  // namespace tahmin
