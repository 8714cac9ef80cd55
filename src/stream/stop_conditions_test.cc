#include "stream/stop_conditions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace tahmin {
namespace {

struct StreamedRun {
  std::string streamed;  // all deltas joined
  std::string text;
  std::vector<std::string> deltas;
  FinishReason finish;
  int64_t num_output_tokens;
};

// Feeds the pieces as tokens 100, 101, ...; ends as a full context would if nothing else ends it.
StreamedRun Feed(const StopConfig& config, const std::vector<std::string>& pieces) {
  StopConditions conditions(config);
  StreamedRun run;
  for (size_t i = 0; i < pieces.size() && conditions.finish() == FinishReason::kNone; ++i) {
    const TokenOutcome outcome = conditions.Commit(static_cast<int32_t>(100 + i), pieces[i]);
    EXPECT_EQ(outcome.finish, conditions.finish());
    EXPECT_TRUE(IsValidUtf8(outcome.delta));
    run.deltas.push_back(outcome.delta);
  }
  run.deltas.push_back(conditions.Finish(FinishReason::kLength));
  for (const std::string& delta : run.deltas) run.streamed += delta;
  run.text = conditions.text();
  run.finish = conditions.finish();
  run.num_output_tokens = conditions.num_output_tokens();
  EXPECT_EQ(run.streamed, run.text);
  return run;
}

StopConfig Stops(std::vector<std::string> stops) {
  StopConfig config;
  config.stop_strings = std::move(stops);
  return config;
}

void ExpectStop(const StreamedRun& run, const std::string& text, int64_t num_output_tokens) {
  EXPECT_EQ(run.text, text);
  EXPECT_EQ(run.finish, FinishReason::kStop);
  EXPECT_EQ(run.num_output_tokens, num_output_tokens);
}

TEST(StopConditions, B09EndTokenAtEveryOffsetOfABlock) {
  for (int32_t offset = 1; offset <= 9; ++offset) {
    for (const int32_t end : {7, 8}) {
      StopConditions conditions({.end_tokens = {7, 8}, .stop_strings = {"never"}});
      std::string text;
      for (int32_t i = 1; i < offset; ++i) text += conditions.Commit(100 + i, "ne").delta;
      const TokenOutcome outcome = conditions.Commit(end, "</s>");
      text += outcome.delta;
      EXPECT_FALSE(outcome.is_part_of_output);
      EXPECT_EQ(outcome.finish, FinishReason::kStop);
      EXPECT_EQ(conditions.num_output_tokens(), offset - 1);
      EXPECT_EQ(text.size(), static_cast<size_t>(2 * (offset - 1)));  // what was held is released
      EXPECT_EQ(text, conditions.text());
    }
  }
}

TEST(StopConditions, B11StopStringsOfOneThreeAndFortyCharacters) {
  const std::string forty = "0123456789abcdefghij0123456789ABCDEFGHIJ";
  for (const std::string& stop : {std::string("#"), std::string("###"), forty}) {
    // In one token, as its own token, spread over single characters, ending mid-token.
    ExpectStop(Feed(Stops({stop}), {"ab", std::string("c").append(stop).append("tail"), "x"}),
               "abc", 2);
    ExpectStop(Feed(Stops({stop}), {"ab", stop, "x"}), "ab", 1);
    std::vector<std::string> pieces = {"ab"};
    for (const char c : stop) pieces.emplace_back(1, c);
    ExpectStop(Feed(Stops({stop}), pieces), "ab", 1);
    ExpectStop(Feed(Stops({stop}), {std::string("a").append(stop, 0, 1), stop.substr(1) + "zz"}),
               "a", 1);
  }
}

TEST(StopConditions, B11OverlappingStops) {
  for (const auto& stops : {std::vector<std::string>{"ab", "abc"}, {"abc", "ab"}}) {
    ExpectStop(Feed(Stops(stops), {"x", "a", "b", "c"}), "x", 1);
    ExpectStop(Feed(Stops(stops), {"xabc"}), "x", 1);
    ExpectStop(Feed(Stops(stops), {"xa", "bc"}), "x", 1);
  }
  // Of two that end at the same character the longer one cuts; the first to end wins.
  ExpectStop(Feed(Stops({"bc", "abc"}), {"xabcd"}), "x", 1);
  ExpectStop(Feed(Stops({"abcd", "bc"}), {"xabcd"}), "xa", 1);
  ExpectStop(Feed(Stops({"aab"}), {"a", "a", "a", "b"}), "a", 1);
}

TEST(StopConditions, B11HoldsBackOnlyTheLongestPossibleStart) {
  const StreamedRun run = Feed(Stops({"abac", "\n\nUser"}), {"xaba", "bab", "q\n", "\nUs", "x"});
  EXPECT_EQ(run.deltas, (std::vector<std::string>{"x", "abab", "abq", "", "\n\nUsx", ""}));
  EXPECT_EQ(run.finish, FinishReason::kLength);
  EXPECT_EQ(run.num_output_tokens, 5);
}

TEST(StopConditions, B11TokensWhollyInsideTheStopStringAreNotOutput) {
  ExpectStop(Feed(Stops({"END"}), {"a", "", "bE", "", "N", "D!"}), "ab", 3);
  ExpectStop(Feed(Stops({"END"}), {"E", "N", "D"}), "", 0);
  // A broken character before the stop string: its replacement is text of the first token.
  ExpectStop(Feed(Stops({"x"}), {"\xE2\x82", "x"}), "\xEF\xBF\xBD", 1);
  ExpectStop(Feed(Stops({"\xE2\x82\xAC"}), {"a", "\xE2\x82", "\xAC"}), "a", 1);
}

TEST(StopConditions, B37LengthCutInsideACharacterGivesOneReplacement) {
  StopConfig config = Stops({"zz"});
  config.max_tokens = 2;
  const StreamedRun run = Feed(config, {"az", "\xF0\x9F", "\x98\x80"});
  EXPECT_EQ(run.text, "az\xEF\xBF\xBD");
  EXPECT_EQ(run.finish, FinishReason::kLength);
  EXPECT_EQ(run.num_output_tokens, 2);
}

TEST(StopConditions, StopWinsOverLengthAtTheLastToken) {
  StopConfig config = Stops({"b"});
  config.max_tokens = 2;
  ExpectStop(Feed(config, {"a", "b"}), "a", 1);
  config.end_tokens = {101};
  ExpectStop(Feed(config, {"a", "c"}), "a", 1);
}

TEST(StopConditions, FinishReleasesHeldTextOnce) {
  StopConditions conditions(Stops({"abc"}));
  EXPECT_EQ(conditions.Commit(1, "xab").delta, "x");
  EXPECT_EQ(conditions.Finish(FinishReason::kCancelled), "ab");
  EXPECT_EQ(conditions.text(), "xab");
  EXPECT_EQ(conditions.finish(), FinishReason::kCancelled);
  EXPECT_EQ(conditions.num_output_tokens(), 1);
  EXPECT_EQ(conditions.Finish(FinishReason::kLength), "");
  EXPECT_EQ(conditions.finish(), FinishReason::kCancelled);
}

TEST(StopConditions, EmptyAndInvalidStopStringsNeverMatch) {
  const StreamedRun run = Feed(Stops({"", "\x82"}), {"a\xE2\x82\xAC", "b"});
  EXPECT_EQ(run.text,
            "a\xE2\x82\xAC"
            "b");
  EXPECT_EQ(run.deltas[0], "a\xE2\x82\xAC");
}

// The text before the first place where a stop string ends, by plain search.
std::string ExpectedText(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST(StopConditions, B11TextDoesNotDependOnHowBytesAreCutIntoTokens) {
  std::mt19937 random(7);
  const std::vector<std::string> atoms = {"a",        "b",   "ab", "\xC3\xA9", "\xF0\x9F\x98\x80",
                                          "\xF0\x9F", "\xFF"};
  for (int round = 0; round < 3000; ++round) {
    std::string bytes;
    for (size_t i = random() % 25; i > 0; --i) bytes += atoms[random() % atoms.size()];
    std::vector<std::string> stops;
    for (size_t i = 1 + random() % 3; i > 0; --i) {
      std::string stop;
      for (size_t j = 1 + random() % 4; j > 0; --j) stop += atoms[random() % 5];
      stops.push_back(stop);
    }
    Utf8Assembler assembler;
    std::string text = assembler.Append(bytes);
    text += assembler.Finish();
    const std::string expected = ExpectedText(text, stops);
    for (int split = 0; split < 4; ++split) {
      std::vector<std::string> pieces;
      for (size_t at = 0; at < bytes.size();) {
        const size_t size = random() % 6;  // empty tokens too
        pieces.push_back(bytes.substr(at, size));
        at += size;
      }
      const StreamedRun run = Feed(Stops(stops), pieces);
      ASSERT_EQ(run.text, expected);
      ASSERT_EQ(run.finish, expected == text ? run.finish : FinishReason::kStop);
    }
  }
}

TEST(FinishReasonName, Names) {
  EXPECT_EQ(FinishReasonName(FinishReason::kNone), "");
  EXPECT_EQ(FinishReasonName(FinishReason::kStop), "stop");
  EXPECT_EQ(FinishReasonName(FinishReason::kLength), "length");
  EXPECT_EQ(FinishReasonName(FinishReason::kCancelled), "cancelled");
}

}  // namespace
}  // namespace tahmin
