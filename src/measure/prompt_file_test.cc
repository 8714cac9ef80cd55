#include "measure/prompt_file.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace tahmin {
namespace {

class PromptFile : public testing::Test {
 protected:
  ~PromptFile() override { std::remove(path_.c_str()); }

  absl::StatusOr<std::vector<PromptEntry>> Read(const std::string& text) const {
    std::ofstream(path_, std::ios::binary) << text;
    return ReadPromptFile(path_);
  }
  void ExpectRefused(const std::string& text, const std::string& why) const {
    const auto prompts = Read(text);
    ASSERT_FALSE(prompts.ok()) << text;
    EXPECT_NE(prompts.status().message().find(why), std::string::npos) << prompts.status();
  }

  const std::string path_ = testing::TempDir() + "tahmin-prompts-" +
                            testing::UnitTest::GetInstance()->current_test_info()->name() +
                            ".jsonl";
};

TEST_F(PromptFile, BlankLinesAndAMissingLastNewlineAreNothingToStumbleOver) {
  const auto prompts = Read(
      "{\"id\": \"a\", \"group\": \"g\", \"turns\": [\"one\", \"two\"]}\r\n\n \t\n"
      "{\"id\": \"b\", \"group\": \"h\", \"turns\": [\"\"], \"more\": 1}");
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  ASSERT_EQ(prompts->size(), 2u);
  EXPECT_EQ((*prompts)[0].turns, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ((*prompts)[1].group, "h");
}

TEST_F(PromptFile, SaysTheLineOfWhatIsNoPrompt) {
  const std::string good = "{\"id\": \"a\", \"group\": \"g\", \"turns\": [\"x\"]}\n";
  for (const char* bad :
       {"{", "[]", "1", "{\"id\": 1, \"group\": \"g\", \"turns\": [\"x\"]}",
        "{\"id\": \"b\", \"turns\": [\"x\"]}", "{\"id\": \"b\", \"group\": \"g\", \"turns\": []}",
        "{\"id\": \"b\", \"group\": \"g\", \"turns\": [1]}",
        "{\"id\": \"b\", \"group\": \"g\", \"turns\": \"x\"}"}) {
    ExpectRefused(good + "\n" + bad + "\n", "line 3: expected {\"id\"");
  }
  ExpectRefused(good + good, "line 2: id 'a' appears twice");
  ExpectRefused("{\"id\": \"a\", \"group\": \"all\", \"turns\": [\"x\"]}",
                "line 1: no group may be");
  ExpectRefused(" \n", "expected prompts, found none");
}

TEST_F(PromptFile, NamesAFileThatIsNotThere) {
  const auto prompts = ReadPromptFile(path_);
  EXPECT_EQ(prompts.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(prompts.status().message().find(path_), std::string::npos);
}

}  // namespace
}  // namespace tahmin
