#include "control/controller_trace.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tahmin {
namespace {

using testing::HasSubstr;

std::string ReadTrace(const std::string& name) {
  std::ifstream file(std::string(TAHMIN_TRACES) + "/" + name);
  EXPECT_TRUE(file.good()) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

ReplayReport MustReplay(const std::string& trace) {
  const auto report = ReplayTrace(trace);
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *report : ReplayReport{};
}

// Runs on real models, recorded by bench/control/record_trace.cc: every choice comes out as it did
// then. A change of policy changes them: look at the difference, then record again.
TEST(ControllerTrace, RecordedRunsChooseTheSameAgain) {
  int num_traces = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TAHMIN_TRACES)) {
    const ReplayReport report = MustReplay(ReadTrace(entry.path().filename()));
    EXPECT_GT(report.num_steps, 20) << entry.path();
    EXPECT_GE(report.num_choices, 3 * report.num_steps) << entry.path();
    EXPECT_TRUE(report.differences.empty())
        << entry.path() << ": " << report.differences.size()
        << " differences, the first: " << report.differences.front();
    ++num_traces;
  }
  EXPECT_GE(num_traces, 2);
}

// The test above would see a choice that was made otherwise.
TEST(ControllerTrace, AnotherChoiceOrAnotherTimeIsSeen) {
  const std::string trace = ReadTrace("pair_code.trace");
  std::string other_choice = trace;
  const size_t budget = other_choice.find("\nbudget ");
  const size_t choice = other_choice.find(" = ", budget) + 3;
  other_choice[choice] = other_choice[choice] == '9' ? '8' : '9';
  EXPECT_EQ(MustReplay(other_choice).differences.size(), 1u);

  // A target pass ten times as slow makes drafts worth more.
  std::istringstream lines(trace);
  std::string slower, line;
  while (std::getline(lines, line)) {
    if (line.starts_with("update ")) {
      std::istringstream words(line);
      std::string word;
      for (int i = 0; words >> word; ++i) {
        if (i > 0) slower += ' ';
        slower += word;
        if (i == 7 || i == 8) slower += "e1";
      }
      slower += "\n";
    } else {
      slower += line + "\n";
    }
  }
  EXPECT_FALSE(MustReplay(slower).differences.empty());
}

TEST(ControllerTrace, RecordsWhatItPassesOn) {
  AdaptiveOptions options;
  options.drafters = {{.width = 2}};
  options.verify_cost = {{1, 10.0}, {5, 12.0}};
  const auto controller = MakeAdaptiveController(options);
  std::string trace;
  TraceRecorder recorder(*controller, &trace);
  recorder.BeginRequest({.prompt_tokens = 10, .prefill_ms = 100.25});
  recorder.BeginStep({.num_tokens = 11, .tokens_left = 9});
  EXPECT_GT(recorder.BudgetFor(0, {}).max_tokens, 0);
  DraftTree tree;
  tree.nodes = {{.token = 5, .parent = kRoot, .confidence = 0.9f},
                {.token = 6, .parent = 0, .confidence = 0.0625f, .is_probe = true}};
  const std::vector<bool> kept = recorder.Select(tree, 8);
  EXPECT_EQ(kept, controller->Select(tree, 8));
  StepStats stats;
  stats.num_tokens = 11;
  stats.num_committed = 1;
  stats.verify_ms = stats.total_ms = 11.125;
  stats.drafters.resize(1);
  stats.drafters[0].was_called = true;
  stats.drafters[0].num_proposed = stats.drafters[0].num_levels = 2;
  stats.drafters[0].draft_ms = 0.1;
  stats.drafters[0].outcomes = {{.depth = 1, .confidence = 0.9f, .is_accepted = false}};
  recorder.Update(stats);
  EXPECT_THAT(trace, HasSubstr("\nrequest 10 0 100.25\nstep 11 9\n"));
  EXPECT_THAT(trace, HasSubstr("\nselect 8 2 5 -1 0.9 0 6 0 0.0625 1 ="));
  const ReplayReport report = MustReplay(trace);
  EXPECT_EQ(report.num_steps, 1);
  EXPECT_EQ(report.num_choices, 2);
  EXPECT_TRUE(report.differences.empty());
}

TEST(ControllerTrace, WhatIsNoTraceIsRefusedWithItsLine) {
  const std::string header = "tahmin-controller-trace 3\noptions 24 1 2 0 0 1 1 10\n";
  EXPECT_TRUE(ReplayTrace(header).ok());
  EXPECT_FALSE(ReplayTrace("").ok());
  for (const char* line : {"budget 1 0 = 1 1 1 0 0", "budget 0 1 5 0 0.5 0 = 1 1 1 0 0", "what", "",
                           "update 1 2 3", "select 4 99999999 = 1", "options 24 0 0"}) {
    const auto report = ReplayTrace(header + line + "\n");
    EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(std::string(report.status().message()), HasSubstr("line 3")) << line;
  }
}

}  // namespace
}  // namespace tahmin
