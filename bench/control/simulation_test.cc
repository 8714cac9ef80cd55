#include "bench/control/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/control/replayed_draft.h"
#include "bench/control/text_record_fixture.h"

namespace tahmin::bench {
namespace {

using ::testing::HasSubstr;

MachineCosts FlatMachine() {
  return {
      .verify = {{1, 10}, {4, 10}, {8, 20}}, .draft_pass_ms = 1, .read_ms = 0.5, .prefill_ms = 1};
}

absl::StatusOr<SimulatedSetting> RunSetting(const RecordedTexts& record, std::string_view name) {
  const auto settings = ParseSettings(name, /*has_draft_model=*/true);
  if (!settings.ok()) return settings.status();
  return Simulate(record, FlatMachine(), settings->front(), {.noise = 0});
}

TEST(Simulation, PlainDecodingTakesPlainTime) {
  const auto simulated = RunSetting(CircleTexts(41), "none");
  ASSERT_TRUE(simulated.ok()) << simulated.status();
  EXPECT_EQ(simulated->texts[0].num_steps, 40);
  EXPECT_DOUBLE_EQ(simulated->texts[0].Speedup(), 1);
}

// Each of 10 steps emits four tokens and takes a pass of four rows and three of the draft model,
// which reads two tokens more than the usual two at first.
TEST(Simulation, ChargesVerifyDraftAndReading) {
  const auto simulated = RunSetting(CircleTexts(41), "draft@3");
  ASSERT_TRUE(simulated.ok()) << simulated.status();
  const SimulatedText& text = simulated->texts[0];
  EXPECT_EQ(text.num_steps, 10);
  EXPECT_DOUBLE_EQ(text.ms, 10 * 10 + 10 * 3 + 2 * 0.5);
  EXPECT_DOUBLE_EQ(text.draft_ms, 31);
  EXPECT_EQ(text.draft_begin, 1);
  EXPECT_EQ(simulated->calibration[0].bins[7].num_nodes, 10);  // 0.75
  EXPECT_EQ(simulated->calibration[0].bins[7].num_accepted, 10);
}

TEST(Simulation, EveryPolicyWritesTheText) {
  RecordedTexts record = CircleTexts(90);
  record.header.max_tokens = 120;  // the text ended by itself
  for (size_t i = 0; i < record.texts[0].drafts.size(); i += 3) {
    record.texts[0].drafts[i].first.token = 20;
    record.texts[0].drafts[i].wrong_path = {{21, 0.5f}};
  }
  record.texts.push_back(record.texts[0]);
  for (const char* name : {"auto", "suffix@5", "lookup", "recycling@6", "draft+suffix@8"}) {
    const auto simulated = RunSetting(record, name);
    ASSERT_TRUE(simulated.ok()) << simulated.status();
    EXPECT_EQ(simulated->texts[1].output_tokens, 90);
    EXPECT_GT(simulated->texts[1].Speedup(), 1) << name;
  }
}

TEST(Simulation, TheSameSeedGivesTheSameTimes) {
  const RecordedTexts record = CircleTexts(41);
  const auto settings = ParseSettings("auto", true);
  ASSERT_TRUE(settings.ok());
  const SimulationOptions noisy{.noise = 0.1, .seed = 3}, otherwise{.noise = 0.1, .seed = 4};
  const auto first = Simulate(record, FlatMachine(), settings->front(), noisy);
  const auto second = Simulate(record, FlatMachine(), settings->front(), noisy);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->texts[0].ms, second->texts[0].ms);
  EXPECT_NE(Simulate(record, FlatMachine(), settings->front(), otherwise)->texts[0].ms,
            first->texts[0].ms);
}

// The controller is told of busy spells, and what is counted are its choices, in quiet time.
TEST(Simulation, BusySpellsChangeWhatTheControllerDoes) {
  RecordedTexts record = CircleTexts(200);
  // No circle, and every other guess is wrong: a draft is worth about what it costs.
  TextRecord& text = record.texts[0];
  for (size_t i = 0; i < text.output.size(); ++i)
    text.output[i] = static_cast<int32_t>(4 + i * i % 13);
  for (size_t i = 0; i < text.drafts.size(); ++i) {
    text.rows[i].front().token = text.output[i + 1];
    text.rows[i].back().token = 20;
    text.drafts[i].first.token = i % 2 == 0 ? text.output[i + 1] : 30;
  }
  const auto settings = ParseSettings("auto", true);
  ASSERT_TRUE(settings.ok());
  const auto quiet =
      Simulate(record, FlatMachine(), settings->front(), {.noise = 0.1, .busy = 0, .seed = 3});
  const auto busy =
      Simulate(record, FlatMachine(), settings->front(), {.noise = 0.1, .busy = 0.5, .seed = 3});
  ASSERT_TRUE(quiet.ok() && busy.ok());
  EXPECT_NE(quiet->texts[0].ms, busy->texts[0].ms);
  // Plain decoding has no choice.
  EXPECT_EQ(RunSetting(record, "none")->texts[0].Speedup(), 1);
}

// Rounding has made the second token as likely as the first, or nothing is known of the others.
TEST(Simulation, TheFirstTokenOfARowIsTheTextsOwn) {
  RecordedTexts record = CircleTexts(9);
  for (auto& row : record.texts[0].rows) {
    const int32_t token = row.front().token;
    row = {{token, -0.6931f}, {token == 0 ? 1 : 0, -0.6931f}};
  }
  record.texts[0].rows.back().resize(1);
  record.texts[0].rows.back()[0].logprob = -12;
  const auto simulated = RunSetting(record, "none");
  ASSERT_TRUE(simulated.ok());
  EXPECT_EQ(simulated->texts[0].num_steps, 8);
}

TEST(Simulation, RefusesWhatNoRecordHas) {
  EXPECT_THAT(std::string(RunSetting(CircleTexts(9), "lookahead").status().message()),
              HasSubstr("probes"));
  EXPECT_FALSE(ParseSettings("draft@3", /*has_draft_model=*/false).ok());
  EXPECT_FALSE(ParseSettings("rest", true).ok());
  EXPECT_FALSE(ParseSettings("junk", true).ok());
  EXPECT_THAT(std::string(ParseSettings("auto,suffix@0", true).status().message()),
              HasSubstr("'suffix@0'"));
}

// What a replayed draft gives behind the first output token.
DraftTree DraftOf(const TextRecord& text, const DraftBudget& budget, ReplayedDraft& draft) {
  std::vector<int32_t> tokens = text.prompt;
  tokens.push_back(text.output.front());
  return draft.Draft({.tokens = tokens}, budget);
}

TEST(ReplayedDraft, SecondChoicesHangBesideTheChainWhileItIsRight) {
  TextRecord text = CircleTexts(9).texts[0];
  text.drafts[1] = {.first = {20, 0.5f}, .second = {6, 0.25f}, .wrong_path = {{21, 0.5f}}};
  ReplayedDraft draft(text, 32, 0);
  const DraftTree tree =
      DraftOf(text, {.max_tokens = 16, .max_depth = 8, .spare_choices = 1}, draft);
  std::vector<int32_t> tokens, parents;
  for (const DraftNode& node : tree.nodes) {
    tokens.push_back(node.token);
    parents.push_back(node.parent);
  }
  EXPECT_EQ(tokens, (std::vector<int32_t>{5, 10, 20, 6, 21}));
  EXPECT_EQ(parents, (std::vector<int32_t>{kRoot, kRoot, 0, 0, 2}));
  EXPECT_EQ(draft.last_work().num_passes, 3);
  EXPECT_EQ(draft.last_work().read_tokens, 4);
}

TEST(ReplayedDraft, HonoursTheBudget) {
  const TextRecord text = CircleTexts(9).texts[0];
  ReplayedDraft draft(text, 32, 0);
  EXPECT_EQ(DraftOf(text, {.max_tokens = 3, .max_depth = 8}, draft).size(), 3);
  EXPECT_EQ(DraftOf(text, {.max_tokens = 8, .max_depth = 2}, draft).size(), 2);
  // 0.75 * 0.75 is less: the second node is the last one.
  EXPECT_EQ(DraftOf(text, {.max_tokens = 8, .max_depth = 8, .min_survival = 0.6f}, draft).size(),
            2);
  EXPECT_TRUE(DraftOf(text, {}, draft).empty());
  // The chain comes first: one spare choice for the one token that it leaves.
  const DraftTree clipped =
      DraftOf(text, {.max_tokens = 4, .max_depth = 3, .spare_choices = 1}, draft);
  EXPECT_EQ(clipped.size(), 4);
  EXPECT_EQ(clipped.Depth(), 3);
  EXPECT_EQ(draft.last_work().num_passes, 3);
}

TEST(ReplayedDraft, KnowsNothingButAWindowUntilItReadsAll) {
  const TextRecord text = CircleTexts(9).texts[0];
  ReplayedDraft draft(text, 32, 0);
  const DraftBudget trial{.max_tokens = 3, .max_depth = 3, .max_catch_up = 2};
  EXPECT_EQ(DraftOf(text, trial, draft).size(), 1);
  EXPECT_EQ(draft.last_work().read_tokens, 2);
  EXPECT_EQ(DraftOf(text, {.max_tokens = 3, .max_depth = 3}, draft).size(), 3);
  EXPECT_EQ(draft.last_work().read_tokens, 4);
}

}  // namespace
}  // namespace tahmin::bench
