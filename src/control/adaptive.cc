#include "control/adaptive.h"

#include <algorithm>
#include <cmath>

#include "control/acceptance_ema.h"
#include "control/node_selection.h"

namespace tahmin {
namespace {

constexpr double kRateDecay = 0.92;          // of R, a step
constexpr double kFirstRateSteps = 4;        // plain steps that R starts from
constexpr double kCostRate = 0.15;           // of a drafter's costs, a call
constexpr double kForgetAtRequest = 0.5;     // new text: what was learnt counts half
constexpr double kForgetDepths = 0.95;       // and what was learnt of the text itself less
constexpr double kUnknownConfidence = 0.75;  // of the target, before it has written
constexpr double kConfidenceDecay = 0.95;    // a step
constexpr double kMatchDecay = 0.98;         // a tested token
constexpr double kPriorTokens = 4;           // that the unknown counts for
constexpr int64_t kMuchToRead = 24;          // tokens, which say nothing about the next step
constexpr double kReadFactor = 1.2;          // of a draft model's prefill (measured: 1.1 to 1.3)
constexpr int64_t kTrialWindow = 32;         // tokens that a trial reads
// Tokens that an answer is expected to have at least, before a draft model has read the prompt.
// Where no other drafter helps out, waiting costs more than a short answer does (on recorded texts
// all from 40 to 100 do equally well there, and 16 to 28 beside others).
constexpr double kUsualAnswer = 20, kUsualAnswerAlone = 64;
constexpr double kLengthToCome = 1.25;  // of what is written, or usual: that is still to come
constexpr double kAnswerRate = 0.5;     // of the lengths of earlier, shorter answers, a request
constexpr double kRiskShare = 0.018;    // of all time: what trials may cost
// What a further row must be worth of what it seems to cost. The rows that look best are often
// those that were overrated (of nodes that were submitted for 0.35, 0.24 were accepted), and a
// text's own rate is known only at its end. From 1.4 to 2 all does equally well; at 1 a tenth is
// lost.
constexpr double kRowMargin = 1.5;
// A chain stops by itself where it has doubts, and shares its pass with the free tree: it is worth
// more than the tokens of its average, in shares of its first token. Without this a draft model
// stays out where it is best.
constexpr double kChainOption = 0.2;
constexpr double kFirstGain = 1;   // tokens a step that calling a draft model is hoped to gain
constexpr double kGainRate = 0.1;  // of that, a step
constexpr int64_t kFirstTrialAfter = 48;  // tokens; doubles while trials fail
constexpr int64_t kLastTrialAfter = 1024;
constexpr int64_t kTrialAfterSuccess = 8;
constexpr int32_t kTrialTokens = 3;        // or what the user allows
constexpr double kKnownAfter = 6;          // tokens tested; before, chains are as long as a trial's
constexpr double kUnknownPassShare = 0.3;  // of a plain step, for a draft pass never timed

// A drafter that pays for every token.
struct PaidState {
  double pass_ms = 0;       // one pass with a row or two
  double read_ms = 0;       // one more token to read in a pass
  int64_t read_tokens = 0;  // of the sequence, as of its last call
  int64_t pending_at_call = 0;
  int64_t tokens_since_use = 0;
  double usual_gain = kFirstGain;  // tokens a step that calling it was expected to gain, lately
  double num_matched = 0, num_expected = 0;  // first tokens accepted, and the target's confidence
  int64_t trial_after = kFirstTrialAfter;
  bool is_trial = false;
  bool is_partial = false;  // and reads only the end of what is pending
};

struct Choice {
  int32_t num_tokens = 0;
  double worth = 0;
  double expected = 1;  // tokens
};

class Adaptive final : public AdaptiveController {
 public:
  explicit Adaptive(const AdaptiveOptions& options)
      : options_(options),
        verify_(options.verify_cost),
        paid_(options.drafters.size()),
        acceptance_(options.drafters.size()),
        usual_answer_(MostUsualAnswer()) {
    for (size_t i = 0; i < paid_.size(); ++i) paid_[i].pass_ms = options.drafters[i].pass_ms;
  }

  void BeginRequest(const RequestOutlook& outlook) override;
  void BeginStep(const StepOutlook& outlook) override { outlook_ = outlook; }
  DraftBudget BudgetFor(int32_t drafter, const DraftTree& so_far) override;
  std::vector<float> AcceptanceOf(int32_t drafter, const DraftTree& own) const override;
  std::vector<bool> Select(const DraftTree& merged, int32_t max_tokens) const override;
  void Update(const StepStats& stats) override;
  double VerifyMs(int32_t num_drafted) const override { return verify_.Ms(1 + num_drafted); }
  const AdaptiveOptions& Options() const override { return options_; }
  std::vector<RowCost> VerifyCosts() const override { return verify_.Points(); }
  double PassMs() const override;
  void DraftersAreNew() override {
    for (PaidState& paid : paid_) paid.read_tokens = 0;
  }

 private:
  double PlainMs() const { return verify_.Ms(1); }
  double MostUsualAnswer() const {
    const bool has_free =
        std::any_of(options_.drafters.begin(), options_.drafters.end(),
                    [](const AdaptiveDrafter& traits) { return !traits.costs_per_token; });
    return has_free ? kUsualAnswer : kUsualAnswerAlone;
  }
  // R: never less than plain decoding gives.
  double Rate() const { return std::max(rate_tokens_ / std::max(rate_ms_, 1e-9), 1 / PlainMs()); }
  double PassMs(const PaidState& paid) const {
    return paid.pass_ms > 0 ? paid.pass_ms : kUnknownPassShare * PlainMs();
  }
  double PriorOf(const PaidState& paid) const;
  double ReadMs(const PaidState& paid) const {
    return paid.read_ms > 0 ? paid.read_ms : 0.3 * PassMs(paid);
  }
  // What trials may still cost, in ms.
  double RiskLeft() const { return kRiskShare * spent_ms_ - trial_ms_; }
  Choice BestOfTree(const DraftTree& tree, int32_t max_tokens) const;
  Choice BestChain(int32_t drafter) const;
  DraftBudget PaidBudget(int32_t drafter, const DraftTree& so_far);
  DraftBudget ChainBudget(int32_t drafter, int32_t length, int64_t max_catch_up);
  bool ReadingPays(const PaidState& paid, const Choice& chain, double gain) const;
  bool WantsConfidence() const override {
    return std::any_of(options_.drafters.begin(), options_.drafters.end(),
                       [](const AdaptiveDrafter& traits) { return traits.costs_per_token; });
  }
  bool HasCaughtUp(const StepStats& stats) const;
  void LearnCosts(PaidState* paid, const DrafterStep& step, const StepStats& stats);

  const AdaptiveOptions options_;
  VerifyCost verify_;
  std::vector<PaidState> paid_;  // by drafter; unused for free ones
  std::vector<AcceptanceEma> acceptance_;
  StepOutlook outlook_;
  int64_t num_written_ = 0;                            // of the request
  double confidence_sum_ = 0, confidence_weight_ = 0;  // the target's, lately
  double usual_answer_;                                // less where answers have been shorter
  double rate_tokens_ = 0, rate_ms_ = 0;               // decayed sums
  double spent_ms_ = 0, trial_ms_ = 0;                 // of the request: on all, and on trials
};

double Adaptive::PassMs() const {
  for (size_t i = 0; i < paid_.size(); ++i) {
    if (options_.drafters[i].costs_per_token) return paid_[i].pass_ms;
  }
  return 0;
}

void Adaptive::BeginRequest(const RequestOutlook& outlook) {
  if (num_written_ > 0) {
    const double length = std::min(static_cast<double>(num_written_), MostUsualAnswer());
    usual_answer_ += kAnswerRate * (length - usual_answer_);
  }
  num_written_ = 1;
  confidence_weight_ = kPriorTokens;
  confidence_sum_ = kPriorTokens * kUnknownConfidence;
  spent_ms_ = trial_ms_ = 0;
  rate_tokens_ = kFirstRateSteps;  // plain decoding, until steps say more
  rate_ms_ = kFirstRateSteps * PlainMs();
  const int64_t prefilled = outlook.prompt_tokens - outlook.cached_prompt_tokens;
  for (size_t i = 0; i < paid_.size(); ++i) {
    acceptance_[i].Forget(kForgetAtRequest, kForgetDepths);
    PaidState& paid = paid_[i];
    // What the target keeps of an earlier turn a drafter has only if it read it.
    paid.read_tokens = std::min(paid.read_tokens, outlook.cached_prompt_tokens);
    paid.tokens_since_use = 0;
    paid.usual_gain = kFirstGain;
    paid.trial_after = kFirstTrialAfter;
    paid.is_trial = false;
    // Reading is the target's prefill on a smaller model, which gains less from many rows, until it
    // has been timed.
    if (paid.read_ms > 0 || prefilled < 16) continue;
    paid.read_ms = kReadFactor * outlook.prefill_ms / static_cast<double>(prefilled) *
                   PassMs(paid) / PlainMs();
  }
}

// The prefix of the likeliest nodes with the largest worth.
Choice Adaptive::BestOfTree(const DraftTree& tree, int32_t max_tokens) const {
  const std::vector<double> expected = ExpectedTokensOfPrefixes(RankBySurvival(tree));
  const double rate = Rate();
  Choice best{.num_tokens = 0, .worth = 1 - rate * PlainMs()};
  const int32_t most = std::min<int32_t>(tree.size(), std::min(max_tokens, options_.max_tokens));
  for (int32_t n = 1; n <= most; ++n) {
    const double rows_ms = verify_.Ms(n + 1) - PlainMs();
    const double worth = expected[n] - rate * (PlainMs() + kRowMargin * rows_ms);
    if (worth > best.worth) best = {n, worth, expected[n]};
  }
  return best;
}

// How often a drafter can be expected to be right in a text where it has hardly drafted. A draft
// model agrees with its target about as often as the target is sure of itself (measured, the mean
// over an answer's first 16 tokens and the acceptance over all of it: 0.55 to 0.66 and 0.61 to 0.72
// on prose, 0.85 to 0.96 and 0.93 to 0.98 on sums), so the target's confidence, which is there
// before anything is drafted, tells the texts apart; how much less or more this drafter agrees is
// learnt over all texts.
double Adaptive::PriorOf(const PaidState& paid) const {
  const double match = (paid.num_matched + kPriorTokens) / (paid.num_expected + kPriorTokens);
  return std::clamp(match * confidence_sum_ / confidence_weight_, 0.02, 0.98);
}

// What became of the drafter's first choices, to the first that was not accepted: what is below
// another choice says nothing about them.
std::vector<NodeOutcome> FirstChoices(const DrafterStep& step) {
  std::vector<NodeOutcome> firsts;
  for (const NodeOutcome& outcome : step.outcomes) {
    if (!firsts.empty() && firsts.back().depth == outcome.depth) continue;
    if (!firsts.empty() && !firsts.back().is_accepted) break;
    firsts.push_back(outcome);
  }
  return firsts;
}

// What the drafter's next chain can be expected to be worth, its own time included. Without a
// margin on its rows: an average over the text is not picked for looking good.
Choice Adaptive::BestChain(int32_t drafter) const {
  const double rate = Rate(), pass_ms = PassMs(paid_[drafter]);
  const double prior = PriorOf(paid_[drafter]);
  Choice best{.num_tokens = 0, .worth = -1e9};
  double survival = 1, expected = 1;
  for (int32_t n = 1; n <= options_.max_tokens; ++n) {
    survival *= acceptance_[drafter].AtDepth(n, prior);
    expected += survival;
    const double worth = expected - rate * (verify_.Ms(n + 1) + n * pass_ms);
    if (worth > best.worth) best = {n, worth, expected};
  }
  return best;
}

DraftBudget Adaptive::BudgetFor(int32_t drafter, const DraftTree& so_far) {
  const AdaptiveDrafter& traits = options_.drafters[drafter];
  if (traits.costs_per_token) return PaidBudget(drafter, so_far);
  return {.max_tokens = options_.max_tokens,
          .max_depth = options_.max_tokens,
          .max_width = traits.width,
          .scale = acceptance_[drafter].Scale()};
}

DraftBudget Adaptive::ChainBudget(int32_t drafter, int32_t length, int64_t max_catch_up) {
  PaidState& paid = paid_[drafter];
  paid.pending_at_call = outlook_.num_tokens - paid.read_tokens;
  paid.is_partial = max_catch_up > 0 && paid.pending_at_call > max_catch_up;
  if (paid.is_partial) paid.pending_at_call = max_catch_up;
  // One more token costs a draft pass and a row of the target's.
  const double row_ms = (verify_.Ms(length + 1) - PlainMs()) / length;
  const double next = std::max(acceptance_[drafter].AtDepth(2, PriorOf(paid)), 0.05);
  const double min_survival = Rate() * (PassMs(paid) + row_ms) / next;
  // A chain's second choice at each place takes no pass, and is worth a row now and then.
  const int32_t width = options_.drafters[drafter].width;
  const int32_t spare_choices = width == 1 ? 1 : 0;
  return {.max_tokens = length * (1 + spare_choices),
          .max_depth = length,
          .max_width = width,
          .min_survival = static_cast<float>(std::clamp(min_survival, 0.0, 0.95)),
          .scale = acceptance_[drafter].Scale(),
          .spare_choices = spare_choices,
          .max_catch_up = static_cast<int32_t>(max_catch_up)};
}

// Whether a drafter should read what it has missed. Only its end would cost less, but a draft model
// that knows only the end of a long text is seldom right (measured, first token: 0.36 behind 32
// tokens where it is 0.88 behind all, on summaries). How long the answer gets is not known. That a
// little more is still to come than there is, and at first a short answer, is a guess that starts
// at once where the prompt is short, and late or never where it is long. The same counts for the
// few tokens that were missed where a free tree looked better: reading them pays if it will be
// wanted again.
bool Adaptive::ReadingPays(const PaidState& paid, const Choice& chain, double gain) const {
  const double horizon =
      std::min(static_cast<double>(outlook_.tokens_left),
               kLengthToCome * std::max(static_cast<double>(num_written_), usual_answer_));
  const double saved_ms = std::min(gain, paid.usual_gain) * (horizon / chain.expected) / Rate();
  // Two are read with the first pass.
  const int64_t pending = std::max<int64_t>(0, outlook_.num_tokens - paid.read_tokens - 2);
  return ReadMs(paid) * static_cast<double>(pending) <= saved_ms;
}

DraftBudget Adaptive::PaidBudget(int32_t drafter, const DraftTree& so_far) {
  PaidState& paid = paid_[drafter];
  paid.is_trial = false;
  const Choice free_choice = BestOfTree(so_far, options_.max_tokens);
  const Choice chain = BestChain(drafter);
  const bool is_known = acceptance_[drafter].NumTested() >= kKnownAfter;
  const double first = acceptance_[drafter].AtDepth(1, PriorOf(paid));
  const double option = is_known ? kChainOption * first : 0;
  const double gain = chain.worth + option - free_choice.worth;
  paid.usual_gain += kGainRate * (std::max(0.0, gain) - paid.usual_gain);
  const int64_t pending = outlook_.num_tokens - paid.read_tokens;
  // It may turn out better than its average: it stops by itself where it does not pay.
  const int32_t trial_tokens = std::min(kTrialTokens, options_.max_tokens);
  const int32_t most =
      is_known ? std::min(options_.max_tokens, 2 * chain.num_tokens + 1) : trial_tokens;
  if (gain > 0 && ReadingPays(paid, chain, gain)) return ChainBudget(drafter, most, 0);
  const double trial_ms = ReadMs(paid) * static_cast<double>(std::min(pending, kTrialWindow)) +
                          trial_tokens * PassMs(paid);
  if (gain <= 0 && paid.tokens_since_use >= paid.trial_after && trial_ms < RiskLeft()) {
    paid.is_trial = true;
    return ChainBudget(drafter, trial_tokens, std::min(pending, kTrialWindow));
  }
  return {};
}

std::vector<float> Adaptive::AcceptanceOf(int32_t drafter, const DraftTree& own) const {
  std::vector<float> acceptance(own.nodes.size());
  std::vector<int32_t> depth(own.nodes.size());
  for (int32_t i = 0; i < own.size(); ++i) {
    const int32_t parent = own.nodes[i].parent;
    depth[i] = parent == kRoot ? 1 : depth[parent] + 1;
    acceptance[i] = acceptance_[drafter].Acceptance(depth[i], own.nodes[i].confidence);
  }
  return acceptance;
}

std::vector<bool> Adaptive::Select(const DraftTree& merged, int32_t max_tokens) const {
  const Choice best = BestOfTree(merged, max_tokens);
  return KeepBest(merged, RankBySurvival(merged), best.num_tokens, max_tokens);
}

void Adaptive::LearnCosts(PaidState* paid, const DrafterStep& step, const StepStats& stats) {
  if (!step.was_called) {
    paid->tokens_since_use += stats.num_committed;
    return;
  }
  paid->tokens_since_use = 0;
  if (step.num_proposed == 0) return;  // it could not draft: nothing to learn from its time
  const int32_t passes = step.num_levels;
  const int64_t extra = std::max<int64_t>(0, paid->pending_at_call - 2);
  if (extra == 0) {
    const double pass_ms = step.draft_ms / passes;
    paid->pass_ms =
        paid->pass_ms > 0 ? paid->pass_ms + kCostRate * (pass_ms - paid->pass_ms) : pass_ms;
  } else if (extra >= 8) {
    const double read_ms =
        std::max(0.0, step.draft_ms - passes * PassMs(*paid)) / static_cast<double>(extra);
    paid->read_ms = paid->read_ms > 0 ? 0.5 * (paid->read_ms + read_ms) : read_ms;
  }
  // A trial that read only the end leaves the reading to be done.
  if (paid->is_partial) return;
  // Of its own chain it has read all but the last token, as far as that was right.
  const std::vector<NodeOutcome> chain = FirstChoices(step);
  const auto end = std::find_if(chain.begin(), chain.end(),
                                [](const NodeOutcome& outcome) { return !outcome.is_accepted; });
  paid->read_tokens = stats.num_tokens + std::min<int64_t>(end - chain.begin(), passes - 1);
}

// Whether a drafter read much in this step: that is paid once, and says nothing about the next.
bool Adaptive::HasCaughtUp(const StepStats& stats) const {
  for (size_t i = 0; i < stats.drafters.size(); ++i) {
    const bool is_paid = options_.drafters[i].costs_per_token;
    if (is_paid && stats.drafters[i].num_proposed > 0 && paid_[i].pending_at_call > kMuchToRead)
      return true;
  }
  return false;
}

void Adaptive::Update(const StepStats& stats) {
  verify_.Add(1 + stats.num_drafted, stats.verify_ms);
  if (!HasCaughtUp(stats)) {
    rate_tokens_ = kRateDecay * rate_tokens_ + stats.num_committed;
    rate_ms_ = kRateDecay * rate_ms_ + stats.total_ms;
  }
  num_written_ += stats.num_committed;
  const double confidence = stats.root_confidence >= 0 ? stats.root_confidence : kUnknownConfidence;
  if (stats.root_confidence >= 0) {
    confidence_sum_ = kConfidenceDecay * confidence_sum_ + stats.root_confidence;
    confidence_weight_ = kConfidenceDecay * confidence_weight_ + 1;
  }
  spent_ms_ += stats.total_ms;
  for (size_t i = 0; i < stats.drafters.size(); ++i) {
    const DrafterStep& step = stats.drafters[i];
    for (const NodeOutcome& outcome : step.outcomes) {
      acceptance_[i].Add(outcome.depth, outcome.confidence, outcome.is_accepted);
    }
    for (const NodeOutcome& first : FirstChoices(step)) {
      acceptance_[i].AddChoice(first.depth, first.is_accepted);
    }
    if (!options_.drafters[i].costs_per_token) continue;
    PaidState& paid = paid_[i];
    LearnCosts(&paid, step, stats);
    if (!step.was_called) continue;
    if (paid.is_trial) trial_ms_ += step.draft_ms;
    const bool has_matched = !step.outcomes.empty() && step.outcomes.front().is_accepted;
    if (!step.outcomes.empty()) {
      paid.num_matched = kMatchDecay * paid.num_matched + (has_matched ? 1 : 0);
      paid.num_expected = kMatchDecay * paid.num_expected + confidence;
    }
    if (!paid.is_trial) {
      paid.trial_after = kFirstTrialAfter;
    } else if (step.num_proposed > 0 && has_matched) {
      paid.trial_after = kTrialAfterSuccess;
    } else {
      paid.trial_after = std::clamp(2 * paid.trial_after, kFirstTrialAfter, kLastTrialAfter);
    }
  }
}

}  // namespace

std::unique_ptr<AdaptiveController> MakeAdaptiveController(const AdaptiveOptions& options) {
  return std::make_unique<Adaptive>(options);
}

}  // namespace tahmin
