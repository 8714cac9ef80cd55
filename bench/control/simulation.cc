#include "bench/control/simulation.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <utility>

#include "accept/acceptance_rule.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "bench/control/recorded_target.h"
#include "bench/control/replayed_draft.h"
#include "control/adaptive.h"
#include "draft/fused.h"
#include "engine/draft_phase.h"
#include "fmt/format.h"
#include "kernels/kernels.h"

namespace tahmin::bench {
namespace {

// Tells the time of passes that nobody runs.
class VirtualClock {
 public:
  VirtualClock(const MachineCosts& machine, const SimulationOptions& options)
      : machine_(machine), options_(options), verify_(machine.verify), random_(options.seed) {}

  double PlainMs() const { return verify_.Ms(1) + machine_.overhead_ms; }
  double VerifyMs(int32_t rows) const { return verify_.Ms(rows); }
  double DraftMs(const ReplayedDraft::Work& work) const {
    const auto more_tokens = static_cast<double>(std::max<int64_t>(0, work.read_tokens - 2));
    return more_tokens * machine_.read_ms + work.num_passes * machine_.draft_pass_ms;
  }

  // A step begins: whether the machine has something else to do beside it.
  void NextStep() {
    const double leave = 1 / kSpellSteps;
    const double enter = options_.busy < 1 ? leave * options_.busy / (1 - options_.busy) : 1;
    is_busy_ = uniform_(random_) < (is_busy_ ? 1 - leave : enter);
  }
  // What a watch would show for work that takes ms on a quiet machine.
  double Observed(double ms) {
    return ms * (is_busy_ ? kBusyFactor : 1) * std::exp(options_.noise * normal_(random_));
  }

 private:
  // Of a virtual machine with neighbours (two cores of an EPYC), from recorded traces.
  static constexpr double kSpellSteps = 9, kBusyFactor = 1.4;

  const MachineCosts& machine_;
  const SimulationOptions options_;
  const VerifyCost verify_;
  bool is_busy_ = false;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
};

std::vector<int32_t> WidthsOf(const PolicySetting& setting) {
  std::vector<int32_t> widths;
  for (const DrafterRow* row : setting.rows) widths.push_back(row->default_width);
  return widths;
}

AdaptiveOptions OptionsOf(const PolicySetting& setting, const MachineCosts& machine) {
  AdaptiveOptions options{
      .drafters = {}, .verify_cost = machine.verify, .max_tokens = setting.draft_max};
  for (const DrafterRow* row : setting.rows) {
    options.drafters.push_back({.width = row->default_width,
                                .costs_per_token = row->needs_draft_model,
                                .pass_ms = row->needs_draft_model ? machine.draft_pass_ms : 0});
  }
  return options;
}

// What serves one text.
struct TextRun {
  const TextRecord& text;
  size_t num_output = 0;  // tokens that are written of it
  std::vector<std::unique_ptr<Drafter>> drafters = {};
  std::vector<const ReplayedDraft*> replayed = {};  // by drafter; null: it is no draft model
  Sequence sequence = {};
  SimulatedText result = {};

  // The output token that is the root.
  size_t Position() const { return sequence.tokens.size() - text.prompt.size() - 1; }
  bool IsFinished() const { return Position() + 1 == num_output; }
};

class Simulator {
 public:
  Simulator(const RecordHeader& header, const MachineCosts& machine, const PolicySetting& setting,
            const SimulationOptions& options)
      : header_(header),
        machine_(machine),
        setting_(setting),
        options_(options),
        clock_(machine, options),
        target_(header.vocab_size) {
    if (setting.is_adaptive) adaptive_ = MakeAdaptiveController(OptionsOf(setting, machine));
    if (!setting.is_adaptive) fixed_ = MakeFixedController(setting.draft_max, WidthsOf(setting));
    for (const DrafterRow* row : setting.rows) {
      calibration_.push_back({.drafter = std::string(row->name), .bins = {}});
    }
  }

  absl::StatusOr<SimulatedText> Run(const TextRecord& text);
  std::vector<DrafterCalibration> TakeCalibration() { return std::move(calibration_); }

 private:
  Controller& controller() const { return adaptive_ != nullptr ? *adaptive_ : *fixed_; }
  // The context is never what stops a draft.
  DraftLimits Limits(const Sequence& sequence) const {
    return {.context_tokens = sequence.token_limit + setting_.draft_max,
            .max_tokens = setting_.draft_max,
            .valid_vocab_size = header_.vocab_size};
  }
  absl::Status MakeDrafters(TextRun& run) const;
  void Begin(TextRun& run);
  absl::Status Step(TextRun& run);
  void ChargeDrafts(TextRun& run, StepStats* step);
  void Calibrate(const DraftPhase& draft, const AcceptedPath& path);

  const RecordHeader& header_;
  const MachineCosts& machine_;
  const PolicySetting& setting_;
  const SimulationOptions options_;
  VirtualClock clock_;
  RecordedTarget target_;
  std::unique_ptr<AdaptiveController> adaptive_;
  std::unique_ptr<Controller> fixed_;
  std::vector<DrafterCalibration> calibration_;
};

absl::Status Simulator::MakeDrafters(TextRun& run) const {
  DrafterContext context;
  context.sampling = run.sequence.sampling;
  context.draft_model.valid_vocab_size = header_.vocab_size;
  for (const DrafterRow* row : setting_.rows) {
    if (row->needs_draft_model) {
      auto replayed = std::make_unique<ReplayedDraft>(run.text, header_.vocab_size, options_.seed);
      run.replayed.push_back(replayed.get());
      run.drafters.push_back(std::move(replayed));
    } else {
      TAHMIN_ASSIGN_OR_RETURN(std::unique_ptr<Drafter> drafter, row->make(context));
      run.replayed.push_back(nullptr);
      run.drafters.push_back(ShowKnownRowsOnly(std::move(drafter)));
    }
    run.sequence.drafters.push_back({.drafter = run.drafters.back().get()});
  }
  return absl::OkStatus();
}

// As Engine::Generate does, up to the first token.
void Simulator::Begin(TextRun& run) {
  const auto num_prompt = static_cast<int32_t>(run.text.prompt.size());
  run.sequence.tokens.push_back(run.text.output.front());
  run.sequence.step_index = 1;
  run.sequence.controller = &controller();
  run.sequence.rule = MakeAcceptanceRule(AcceptanceRuleKind::kKeyed, run.sequence.sampling);
  if (adaptive_ != nullptr) adaptive_->DraftersAreNew();
  controller().BeginRequest(
      {.prompt_tokens = num_prompt, .prefill_ms = num_prompt * machine_.prefill_ms});
  for (const auto& drafter : run.drafters) drafter->Begin(run.sequence.View());
}

void Simulator::ChargeDrafts(TextRun& run, StepStats* step) {
  for (size_t i = 0; i < step->drafters.size(); ++i) {
    DrafterStep& drafter = step->drafters[i];
    drafter.draft_ms = drafter.observe_ms = 0;
    if (!drafter.was_called || run.replayed[i] == nullptr) continue;
    const double quiet_ms = clock_.DraftMs(run.replayed[i]->last_work());
    run.result.draft_ms += quiet_ms;
    run.result.ms += quiet_ms;
    drafter.draft_ms = clock_.Observed(quiet_ms);
    step->draft_ms += drafter.draft_ms;
    if (run.result.draft_begin == 0) {
      run.result.draft_begin = static_cast<int32_t>(run.Position()) + 1;
    }
  }
}

void Simulator::Calibrate(const DraftPhase& draft, const AcceptedPath& path) {
  const std::vector<float> survival = SurvivalOf(draft.tree());
  for (int32_t node = 0; node < draft.tree().size(); ++node) {
    CalibrationBin& bin = calibration_[draft.DrafterOf(node)]
                              .bins[std::clamp(static_cast<int32_t>(survival[node] * 10), 0, 9)];
    const auto found = std::find(path.nodes.begin(), path.nodes.end(), node);
    bin.num_nodes += 1;
    bin.num_accepted += found != path.nodes.end() ? 1 : 0;
    bin.survival_sum += survival[node];
  }
}

bool HasProbe(const DraftTree& tree) {
  return std::any_of(tree.nodes.begin(), tree.nodes.end(),
                     [](const DraftNode& node) { return node.is_probe; });
}

// How many of the path's tokens the text takes.
int32_t Commit(const AcceptedPath& path, TextRun& run) {
  int32_t num_committed = 0;
  for (const int32_t token : path.tokens) {
    if (run.IsFinished()) break;
    TAHMIN_CHECK(token == run.text.output[run.Position() + 1]);
    run.sequence.tokens.push_back(token);
    num_committed += 1;
  }
  return num_committed;
}

// engine/decode_step.cc with the virtual clock.
absl::Status Simulator::Step(TextRun& run) {
  Sequence& sequence = run.sequence;
  StepStats step;
  step.num_tokens = static_cast<int64_t>(sequence.tokens.size());
  clock_.NextStep();
  const DraftPhase draft(Limits(sequence), sequence, &step);
  if (HasProbe(draft.tree())) {
    return absl::InvalidArgumentError(
        fmt::format("setting '{}': its nodes are probes, whose rows no record has", setting_.name));
  }
  step.num_drafted = draft.tree().size();
  ChargeDrafts(run, &step);

  const VerifiedTree verified = target_.Verify(run.text, run.Position(), draft.tree());
  const double verify_ms = clock_.VerifyMs(1 + step.num_drafted);
  step.verify_ms = clock_.Observed(verify_ms);
  TAHMIN_ASSIGN_OR_RETURN(const AcceptedPath path,
                          sequence.rule->Accept(draft.tree(), verified,
                                                {.tokens = sequence.tokens,
                                                 .step_index = sequence.step_index,
                                                 .valid_vocab_size = header_.vocab_size}));
  step.num_tested = path.num_tested;
  step.num_accepted = static_cast<int32_t>(path.nodes.size());
  draft.CountOutcomes(path, &step);
  Calibrate(draft, path);
  if (controller().WantsConfidence()) {
    step.root_confidence =
        kernels::TopProbability(verified.LogitsOf(kRoot).data(), header_.vocab_size);
  }

  step.num_committed = Commit(path, run);
  sequence.step_index += 1;
  if (!run.IsFinished()) draft.Observe(sequence, verified, path, &step);
  for (DrafterStep& drafter : step.drafters) drafter.observe_ms = 0;  // that was the real clock
  step.total_ms = step.draft_ms + step.verify_ms + machine_.overhead_ms;
  controller().Update(step);

  run.result.num_steps += 1;
  run.result.ms += verify_ms + machine_.overhead_ms;
  return absl::OkStatus();
}

absl::StatusOr<SimulatedText> Simulator::Run(const TextRecord& text) {
  // How long the text gets nobody knows before its end: drafts may go beyond.
  const int32_t max_tokens = options_.max_tokens > 0
                                 ? std::min(options_.max_tokens, header_.max_tokens)
                                 : header_.max_tokens;
  TextRun run{.text = text};
  run.num_output = std::min<size_t>(text.output.size(), static_cast<size_t>(max_tokens));
  run.sequence.tokens = text.prompt;
  run.sequence.num_prompt_tokens = static_cast<int32_t>(text.prompt.size());
  run.sequence.token_limit = static_cast<int64_t>(text.prompt.size()) + max_tokens;
  run.sequence.sampling.temperature = 0;
  run.sequence.sampling.seed = 0;
  TAHMIN_RETURN_IF_ERROR(MakeDrafters(run));
  Begin(run);
  while (!run.IsFinished()) TAHMIN_RETURN_IF_ERROR(Step(run));
  run.result.id = text.id;
  run.result.group = text.group;
  run.result.prompt_tokens = run.sequence.num_prompt_tokens;
  run.result.output_tokens = static_cast<int32_t>(run.num_output);
  run.result.plain_ms = static_cast<double>(run.num_output - 1) * clock_.PlainMs();
  return run.result;
}

}  // namespace

absl::StatusOr<SimulatedSetting> Simulate(const RecordedTexts& record, const MachineCosts& machine,
                                          const PolicySetting& setting,
                                          const SimulationOptions& options) {
  if (options.max_tokens == 1) {
    return absl::InvalidArgumentError("one token of a text is no step; expected 0 (all) or more");
  }
  Simulator simulator(record.header, machine, setting, options);
  SimulatedSetting simulated{.name = setting.name};
  for (const TextRecord& text : record.texts) {
    TAHMIN_ASSIGN_OR_RETURN(SimulatedText result, simulator.Run(text));
    simulated.texts.push_back(std::move(result));
  }
  simulated.calibration = simulator.TakeCalibration();
  return simulated;
}

}  // namespace tahmin::bench
