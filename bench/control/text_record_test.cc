#include "bench/control/text_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/control/machine_costs.h"
#include "bench/control/text_record_fixture.h"

namespace tahmin::bench {
namespace {

using ::testing::HasSubstr;

std::string FileOf(const RecordedTexts& record) {
  std::string file = ToLine(record.header);
  for (const TextRecord& text : record.texts) file += ToLine(text);
  return file;
}

std::string ErrorOf(const RecordedTexts& record) {
  return std::string(ParseTextRecords(FileOf(record)).status().message());
}

TEST(TextRecord, IsReadAsItWasWritten) {
  RecordedTexts record = CircleTexts(5);
  record.texts[0].id = "an \"id\" of two words";
  record.texts[0].drafts[2] = {
      .first = {8, 0.5f}, .second = {6, 0.25f}, .wrong_path = {{11, 0.5f}, {12, 1.0f}}};
  const std::string file = FileOf(record);
  const auto read = ParseTextRecords(file);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(FileOf(*read), file);
  EXPECT_EQ(read->header.vocab_size, 32);
  EXPECT_EQ(read->texts[0].id, record.texts[0].id);
  EXPECT_EQ(read->texts[0].drafts[2].wrong_path[1].token, 12);
}

TEST(TextRecord, ErrorsSayTheLineAndWhatWasExpected) {
  RecordedTexts record = CircleTexts(5);
  EXPECT_THAT(std::string(ParseTextRecords("{}\n").status().message()),
              HasSubstr("line 1: expected \"format\""));
  EXPECT_THAT(std::string(ParseTextRecords("\nnothing").status().message()),
              HasSubstr("line 2: expected a JSON object"));
  record.texts[0].output[1] = 32;
  EXPECT_THAT(ErrorOf(record), HasSubstr("line 2: expected \"output\": at least 2 token ids"));
  record.texts[0].output[1] = 6;
  EXPECT_THAT(ErrorOf(record), HasSubstr("line 2: expected the next output token, 6"));
  record = CircleTexts(5);
  record.texts[0].rows.pop_back();
  EXPECT_THAT(ErrorOf(record), HasSubstr("line 2: expected \"rows\": 4 lists"));
  record = CircleTexts(5);
  record.header.max_tokens = 4;
  EXPECT_THAT(ErrorOf(record), HasSubstr("line 2: expected \"output\": at most 4 tokens, found 5"));
  record = CircleTexts(5);
  record.texts.push_back(record.texts[0]);
  record.texts[1].drafts.clear();
  EXPECT_THAT(ErrorOf(record), HasSubstr("line 3: expected \"drafts\""));
}

TEST(MachineCosts, FilesOfTheRepositoryAreRead) {
  for (const char* name : {"avx2_zen3", "avx512_vnni"}) {
    const auto machine = ReadMachine(name);
    ASSERT_TRUE(machine.ok()) << machine.status();
    EXPECT_FALSE(machine->note.empty());
    EXPECT_GT(machine->draft_pass_ms, 0);
  }
}

TEST(MachineCosts, ErrorsSayWhatWasExpected) {
  const auto error_of = [](std::string_view file) {
    return std::string(ParseMachine(file).status().message());
  };
  EXPECT_THAT(error_of("[]"), HasSubstr("a JSON object"));
  EXPECT_THAT(error_of(R"({"rows": [1, 2], "verify_ms": [10]})"), HasSubstr("as many"));
  EXPECT_THAT(error_of(R"({"rows": [1, 2], "verify_ms": [10, 9]})"), HasSubstr("never falling"));
  EXPECT_THAT(error_of(R"({"rows": [1], "verify_ms": [10], "draft_pass_ms": 1})"),
              HasSubstr("\"read_ms\""));
}

}  // namespace
}  // namespace tahmin::bench
