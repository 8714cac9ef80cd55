#include "control/adaptive.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <vector>

#include "base/philox.h"
#include "gtest/gtest.h"

namespace tahmin {
namespace {

// A machine and a text, simulated: a step's cost is T(n) plus what drafting takes, and the next
// token of a drafter is right with a given probability. The controller sees what the engine would
// tell it.
struct World {
  std::function<double(int32_t rows)> verify_ms;
  double pass_ms = 20, read_ms = 4;  // of the draft model
  // Chance that a token at this depth is right, by drafter and position in the text.
  std::function<double(int32_t drafter, int32_t depth, int64_t position)> acceptance;
  double confidence = -1;  // of the target; < 0: nobody looks
  std::vector<AdaptiveDrafter> drafters = {{.width = 1}, {.costs_per_token = true, .pass_ms = 20}};
};

struct Outcome {
  double ms = 0;                      // of all steps
  double plain_ms = 0;                // the same tokens in plain steps
  std::vector<int64_t> drafted = {};  // by drafter: tokens it was asked for
  std::vector<int32_t> rows = {};     // by step
  double Speedup() const { return plain_ms / ms; }
};

class Simulation {
 public:
  Simulation(const World& world, uint64_t seed) : world_(world), seed_(seed) {
    const AdaptiveOptions options{
        .drafters = world.drafters,
        .verify_cost = {{1, world.verify_ms(1)}, {5, world.verify_ms(5)}}};
    controller_ = MakeAdaptiveController(options);
  }

  Outcome Run(int64_t prompt_tokens, int64_t num_tokens, int64_t cached_tokens = 0) {
    Outcome outcome;
    outcome.drafted.resize(world_.drafters.size());
    controller_->BeginRequest(
        {.prompt_tokens = prompt_tokens,
         .cached_prompt_tokens = cached_tokens,
         .prefill_ms = static_cast<double>(prompt_tokens - cached_tokens) * 12});
    fed_ = std::min(fed_, cached_tokens);
    int64_t position = prompt_tokens;
    while (position < prompt_tokens + num_tokens) {
      position += Step(position, prompt_tokens + num_tokens - position, &outcome);
    }
    return outcome;
  }

  int64_t most_read() const { return most_read_; }

 private:
  bool IsRight(int32_t drafter, int32_t depth, int64_t position) const {
    const PhiloxCounter counter = MakeCounter(DrawPurpose::kDraft, static_cast<uint32_t>(drafter),
                                              static_cast<uint64_t>(position));
    const double uniform = UniformOpen(Philox4x32(seed_, counter)[0]);
    return uniform < world_.acceptance(drafter, depth, position);
  }

  // A chain of `length` tokens: 0 where the target agrees, else 1.
  DraftTree Chain(int32_t drafter, int32_t length, int64_t position) const {
    DraftTree tree;
    for (int32_t i = 0; i < length; ++i) {
      const bool is_right = IsRight(drafter, i + 1, position + i);
      const auto confidence = static_cast<float>(world_.acceptance(drafter, i + 1, position + i));
      tree.nodes.push_back(
          {.token = is_right ? 0 : 1 + drafter, .parent = i - 1, .confidence = confidence});
    }
    return tree;
  }

  int64_t Step(int64_t position, int64_t left, Outcome* outcome) {
    StepStats step;
    step.num_tokens = position;
    step.root_confidence = static_cast<float>(world_.confidence);
    controller_->BeginStep({.num_tokens = position, .tokens_left = left});
    DraftTree best;
    std::vector<DraftTree> own(world_.drafters.size());
    step.drafters.resize(own.size());
    for (size_t i = 0; i < own.size(); ++i) {
      const auto drafter = static_cast<int32_t>(i);
      const DraftBudget budget = controller_->BudgetFor(drafter, best);
      if (budget.max_tokens == 0) continue;
      own[i] = Chain(drafter, std::min(budget.max_tokens, budget.max_depth), position);
      CutAtSurvival(budget, &own[i]);
      DrafterStep& counts = step.drafters[i];
      counts.was_called = true;
      counts.num_proposed = counts.num_levels = own[i].size();
      if (world_.drafters[i].costs_per_token) {
        const int64_t pending = budget.max_catch_up > 0
                                    ? std::min<int64_t>(budget.max_catch_up, position - fed_)
                                    : position - fed_;
        const bool is_partial = pending < position - fed_;
        most_read_ = std::max(most_read_, pending);
        counts.draft_ms = own[i].size() * world_.pass_ms +
                          static_cast<double>(std::max<int64_t>(0, pending - 2)) * world_.read_ms;
        if (!is_partial) fed_ = position;
        outcome->drafted[i] += own[i].size();
      }
      // One drafter's chain is submitted, the likelier one.
      DraftTree calibrated = own[i];
      const std::vector<float> acceptance = controller_->AcceptanceOf(drafter, own[i]);
      for (int32_t n = 0; n < calibrated.size(); ++n)
        calibrated.nodes[n].confidence = acceptance[n];
      if (Worth(calibrated) > Worth(best)) best = calibrated;
    }
    const std::vector<bool> kept = controller_->Select(best, 64);
    int32_t submitted = 0, accepted = 0;
    for (bool is_kept : kept) submitted += is_kept ? 1 : 0;
    while (accepted < submitted && best.nodes[accepted].token == 0) ++accepted;
    step.num_drafted = submitted;
    step.num_accepted = accepted;
    step.num_committed = static_cast<int32_t>(std::min<int64_t>(accepted + 1, left));
    step.verify_ms = world_.verify_ms(1 + submitted);
    step.total_ms = step.verify_ms;
    for (size_t i = 0; i < own.size(); ++i) {
      step.total_ms += step.drafters[i].draft_ms;
      for (int32_t depth = 1; depth <= std::min(accepted + 1, own[i].size()); ++depth) {
        const DraftNode& node = own[i].nodes[depth - 1];
        step.drafters[i].outcomes.push_back({depth, node.confidence, node.token == 0});
        if (node.token != 0) break;
      }
    }
    controller_->Update(step);
    outcome->ms += step.total_ms;
    outcome->plain_ms += step.num_committed * world_.verify_ms(1);
    outcome->rows.push_back(1 + submitted);
    return step.num_committed;
  }

  static void CutAtSurvival(const DraftBudget& budget, DraftTree* chain) {
    double survival = 1;
    for (size_t i = 0; i < chain->nodes.size(); ++i) {
      survival *= budget.scale.Of(chain->nodes[i].confidence);
      if (survival < budget.min_survival) return chain->nodes.resize(i + 1);
    }
  }
  static double Worth(const DraftTree& chain) {
    double survival = 1, sum = 0;
    for (const DraftNode& node : chain.nodes) sum += survival *= node.confidence;
    return sum;
  }

  const World& world_;
  const uint64_t seed_;
  std::unique_ptr<AdaptiveController> controller_;
  int64_t fed_ = 0;
  int64_t most_read_ = 0;  // tokens, by the draft model in one step
};

// The best fixed chain of the draft model in the same world, counted and not simulated.
double BestFixedSpeedup(const World& world, double acceptance) {
  double best = 1;
  for (int32_t k = 1; k <= 16; ++k) {
    double expected = 1;
    for (int32_t i = 1; i <= k; ++i) expected += std::pow(acceptance, i);
    best = std::max(best,
                    expected * world.verify_ms(1) / (world.verify_ms(k + 1) + k * world.pass_ms));
  }
  return best;
}

World MachineWith(double row_ms) {
  World world;
  world.verify_ms = [row_ms](int32_t rows) { return 80 + row_ms * (rows - 1); };
  return world;
}
World BandwidthBound() { return MachineWith(4); }
World ComputeBound() { return MachineWith(15); }

TEST(AdaptiveController, NeverLosesMoreThanThreePercentWithUselessDrafters) {
  for (World world : {BandwidthBound(), ComputeBound()}) {
    world.acceptance = [](int32_t, int32_t, int64_t) { return 0.02; };
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Simulation simulation(world, seed);
      for (int64_t prompt : {20, 200, 2000}) {
        EXPECT_GE(simulation.Run(prompt, 160).Speedup(), 0.97) << "prompt of " << prompt;
      }
    }
  }
}

// Against the best draft length in hindsight; what is missing went into reading the prompt and into
// finding out.
TEST(AdaptiveController, ReachesTheBestFixedDraftLength) {
  for (World world : {BandwidthBound(), ComputeBound()}) {
    for (double acceptance : {0.6, 0.75, 0.9}) {
      world.acceptance = [acceptance](int32_t drafter, int32_t, int64_t) {
        return drafter == 1 ? acceptance : 0.0;
      };
      double sum = 0;
      for (uint64_t seed = 0; seed < 20; ++seed) {
        sum += std::log(Simulation(world, seed).Run(40, 1000).Speedup());
      }
      EXPECT_GE(std::exp(sum / 20), 0.92 * BestFixedSpeedup(world, acceptance))
          << "acceptance " << acceptance << ", T(5) " << world.verify_ms(5);
    }
  }
}

TEST(AdaptiveController, CopiesLongPassagesInFewPasses) {
  World world = BandwidthBound();
  world.acceptance = [](int32_t drafter, int32_t, int64_t position) {
    return drafter == 0 && position % 400 < 200 ? 0.97 : 0.02;
  };
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const Outcome outcome = Simulation(world, seed).Run(400, 400);
    EXPECT_GE(outcome.Speedup(), 1.5);  // 1.6 without a margin on rows, which real texts need
    EXPECT_GE(*std::max_element(outcome.rows.begin(), outcome.rows.end()), 12);
    EXPECT_EQ(*std::min_element(outcome.rows.begin(), outcome.rows.end()), 1);
  }
}

TEST(AdaptiveController, StopsPayingForADraftModelThatTurnedUseless) {
  World world = BandwidthBound();
  world.acceptance = [](int32_t drafter, int32_t, int64_t position) {
    return drafter == 1 && position < 300 ? 0.9 : 0.05;
  };
  const Outcome outcome = Simulation(world, 1).Run(40, 2000);
  // The useless part alone: 1,740 tokens of it, a few trials at most.
  EXPECT_LE(outcome.drafted[1], 260 + 120);
  EXPECT_GE(outcome.Speedup(), 1.03);
}

TEST(AdaptiveController, FindsADraftModelThatBecameUseful) {
  World world = BandwidthBound();
  world.acceptance = [](int32_t drafter, int32_t, int64_t position) {
    return drafter == 1 && position > 500 ? 0.9 : 0.05;
  };
  EXPECT_GE(Simulation(world, 2).Run(40, 2000).Speedup(), 1.25);
}

// Reading the prompt costs as much as drafting can save in so short an answer. The first one shows
// it; later ones are left alone mostly.
TEST(AdaptiveController, ShortAnswersStopPayingForAStart) {
  World world = ComputeBound();
  world.acceptance = [](int32_t drafter, int32_t, int64_t) { return drafter == 1 ? 0.65 : 0.1; };
  double first = 0, later = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Simulation simulation(world, seed);
    for (int32_t request = 0; request < 10; ++request)
      (request == 0 ? first : later) += std::log(simulation.Run(60, 18).Speedup());
  }
  EXPECT_GE(std::exp(first / 20), 0.8);
  EXPECT_GE(std::exp(later / (20 * 9)), 0.97);
}

int32_t NumPlainSteps(const World& world, int64_t prompt_tokens) {
  const Outcome outcome = Simulation(world, 7).Run(prompt_tokens, 160);
  const auto first_draft =
      std::find_if(outcome.rows.begin(), outcome.rows.end(), [](int32_t rows) { return rows > 1; });
  return static_cast<int32_t>(first_draft - outcome.rows.begin());
}

// A short prompt is read at once, a long one when the answer has become long enough to pay for it,
// and always whole.
TEST(AdaptiveController, ReadsShortPromptsAtOnceAndLongOnesLate) {
  World world = BandwidthBound();
  world.acceptance = [](int32_t drafter, int32_t, int64_t) { return drafter == 1 ? 0.8 : 0.02; };
  for (const auto& [prompt_tokens, earliest, latest] :
       {std::array{40, 0, 0}, std::array{200, 8, 120}, std::array{3000, 160, 160}}) {
    const int32_t num_plain = NumPlainSteps(world, prompt_tokens);
    EXPECT_GE(num_plain, earliest) << prompt_tokens;
    EXPECT_LE(num_plain, latest) << prompt_tokens;
  }
}

// Where nothing else drafts, what waiting costs outweighs the risk of a short answer.
TEST(AdaptiveController, AloneADraftModelReadsLongerPromptsAtOnce) {
  World world = BandwidthBound();
  world.drafters = {{.costs_per_token = true, .pass_ms = 20}};
  world.acceptance = [](int32_t, int32_t, int64_t) { return 0.8; };
  EXPECT_EQ(NumPlainSteps(world, 200), 0);
  EXPECT_EQ(NumPlainSteps(world, 3000), 160);
}

// A second turn: the target keeps the first one, of which the draft model has read nothing.
TEST(AdaptiveController, WhatTheTargetKeepsTheDraftModelHasNotRead) {
  World world = BandwidthBound();
  world.drafters = {{.costs_per_token = true, .pass_ms = 20}};
  world.acceptance = [](int32_t, int32_t, int64_t) { return 0.8; };
  Simulation simulation(world, 9);
  simulation.Run(3000, 20);  // too long a prompt for so short an answer
  ASSERT_EQ(simulation.most_read(), 0);
  EXPECT_GE(simulation.Run(3040, 20, 3019).Speedup(), 0.97);
  EXPECT_EQ(simulation.most_read(), 0);
}

// A free drafter that looked good took a few steps. What the draft model missed meanwhile costs a
// third of a step to read: no reason to stay out, though one step gains less than that.
TEST(AdaptiveController, ComesBackAfterAFewStepsWithoutIt) {
  const auto controller =
      MakeAdaptiveController({.drafters = {{.width = 1}, {.costs_per_token = true, .pass_ms = 20}},
                              .verify_cost = {{1, 80}, {5, 120}}});
  controller->BeginRequest({.prompt_tokens = 20, .prefill_ms = 400});
  DraftTree sure;
  for (int32_t i = 0; i < 3; ++i)
    sure.nodes.push_back({.token = 1, .parent = i - 1, .confidence = 0.95f});
  int64_t num_tokens = 21;
  for (int32_t step = 0; step < 200; ++step) {
    const bool is_sure = step % 40 >= 35;
    controller->BeginStep({.num_tokens = num_tokens, .tokens_left = 1000});
    const int32_t budget = controller->BudgetFor(1, is_sure ? sure : DraftTree{}).max_tokens;
    if (step >= 40 && step % 40 == 0) {
      EXPECT_GT(budget, 0) << "after step " << step;
    }
    StepStats stats;
    stats.num_tokens = num_tokens;
    stats.drafters.resize(2);
    stats.num_drafted = is_sure ? 3 : budget > 0 ? 1 : 0;
    // Of the draft model's tokens two of three are right.
    stats.num_accepted = is_sure ? 3 : budget > 0 && step % 3 > 0 ? 1 : 0;
    if (budget > 0 && !is_sure) {
      DrafterStep& draft = stats.drafters[1];
      draft.was_called = true;
      draft.num_proposed = draft.num_levels = 1;
      draft.draft_ms = 20;
      draft.outcomes = {{1, 0.6f, stats.num_accepted == 1}};
    }
    stats.num_committed = stats.num_accepted + 1;
    stats.verify_ms = 80 + 10 * stats.num_drafted;
    stats.total_ms = stats.verify_ms + stats.drafters[1].draft_ms;
    controller->Update(stats);
    num_tokens += stats.num_committed;
  }
}

// Before it has drafted anything: the target's own confidence tells text from text.
TEST(AdaptiveController, ASureTargetIsDraftedForEarlier) {
  World world = BandwidthBound();
  world.drafters = {{.costs_per_token = true, .pass_ms = 20}};
  world.acceptance = [](int32_t, int32_t, int64_t) { return 0.8; };
  world.confidence = 0.95;
  const int32_t sure = NumPlainSteps(world, 250);
  world.confidence = 0.5;
  const int32_t unsure = NumPlainSteps(world, 250);
  EXPECT_LE(sure, 45);
  EXPECT_GE(unsure, 2 * sure);
}

// A draft model's time is that of its chain's passes, whatever hangs beside, and whether a first or
// a second choice is right. Budgets keep to what the user allows.
TEST(AdaptiveController, APassIsALevelWhateverHangsBeside) {
  const auto controller =
      MakeAdaptiveController({.drafters = {{.costs_per_token = true, .pass_ms = 20}},
                              .verify_cost = {{1, 80}, {5, 84}},
                              .max_tokens = 2});
  controller->BeginRequest({.prompt_tokens = 20, .prefill_ms = 100});
  int64_t num_tokens = 21;
  for (int32_t step = 0; step < 40; ++step) {
    controller->BeginStep({.num_tokens = num_tokens, .tokens_left = 1000});
    const DraftBudget budget = controller->BudgetFor(0, {});
    ASSERT_EQ(budget.max_depth, 2);
    ASSERT_EQ(budget.spare_choices, 1);
    StepStats stats;
    stats.num_tokens = num_tokens;
    stats.num_drafted = 3;
    stats.num_accepted = step % 2 == 0 ? 2 : 1;
    stats.num_committed = stats.num_accepted + 1;
    stats.verify_ms = 83;
    stats.drafters.resize(1);
    DrafterStep& draft = stats.drafters[0];
    draft.was_called = true;
    draft.num_proposed = 4;
    draft.num_levels = 2;
    draft.draft_ms = 10;
    // Now both of the chain are right, now the second choice of the first place is.
    draft.outcomes = step % 2 == 0 ? std::vector<NodeOutcome>{{1, 0.9f, true},
                                                              {1, 0.1f, false},
                                                              {2, 0.9f, true},
                                                              {2, 0.1f, false}}
                                   : std::vector<NodeOutcome>{{1, 0.9f, false}, {1, 0.1f, true}};
    stats.total_ms = stats.verify_ms + draft.draft_ms;
    controller->Update(stats);
    num_tokens += stats.num_committed;
  }
  // Two passes of 5 ms each, whatever hangs beside.
  EXPECT_NEAR(controller->PassMs(), 5, 0.5);
}

TEST(AdaptiveController, SameTraceSameChoices) {
  World world = ComputeBound();
  world.acceptance = [](int32_t drafter, int32_t depth, int64_t position) {
    return 0.3 + 0.1 * drafter + 0.05 * static_cast<double>(position % 7) - 0.01 * depth;
  };
  EXPECT_EQ(Simulation(world, 3).Run(100, 500).rows, Simulation(world, 3).Run(100, 500).rows);
}

// A draft model whose context is full gives nothing and takes no time: that says nothing about what
// its passes cost.
TEST(AdaptiveController, SilenceIsNotCheapness) {
  const auto controller = MakeAdaptiveController(
      {.drafters = {{.costs_per_token = true, .pass_ms = 20}}, .verify_cost = {{1, 80}, {5, 96}}});
  controller->BeginRequest({.prompt_tokens = 20, .prefill_ms = 100});
  StepStats silent;
  silent.num_tokens = 21;
  silent.num_committed = 1;
  silent.verify_ms = silent.total_ms = 80;
  silent.drafters.resize(1);
  silent.drafters[0].was_called = true;
  silent.drafters[0].draft_ms = 0.001;
  for (int32_t step = 0; step < 50; ++step) {
    controller->BeginStep({.num_tokens = silent.num_tokens, .tokens_left = 100});
    controller->BudgetFor(0, {});
    controller->Update(silent);
  }
  EXPECT_EQ(controller->PassMs(), 20);
}

TEST(AdaptiveController, LearnsThatPassesGotDearer) {
  // Told T(5) = 96 at first; in truth rows are dear, and 0.5 does not pay for them.
  World told = BandwidthBound();
  told.acceptance = [](int32_t drafter, int32_t, int64_t) { return drafter == 0 ? 0.5 : 0.0; };
  Simulation simulation(told, 4);
  told.verify_ms = [](int32_t rows) { return 80 + 60.0 * (rows - 1); };
  const Outcome outcome = simulation.Run(40, 600);
  const auto late = outcome.rows.end() - 100;
  EXPECT_LE(*std::max_element(late, outcome.rows.end()), 2);
}

}  // namespace
}  // namespace tahmin
