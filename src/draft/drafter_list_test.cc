#include "draft/drafter_list.h"

#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tahmin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr AvailableFiles kNoFiles = {};
constexpr AvailableFiles kAllFiles = {.has_draft_model = true, .has_datastore = true};

std::vector<std::string_view> Names(std::string_view list, const AvailableFiles& files) {
  const auto rows = ParseDrafterList(list, files);
  EXPECT_TRUE(rows.ok()) << rows.status();
  std::vector<std::string_view> names;
  if (!rows.ok()) return names;
  for (const DrafterRow* row : *rows) names.push_back(row->name);
  return names;
}

std::string Error(std::string_view list, const AvailableFiles& files, absl::StatusCode code) {
  const auto rows = ParseDrafterList(list, files);
  EXPECT_EQ(rows.status().code(), code) << list;
  return std::string(rows.status().message());
}

TEST(DrafterList, NamesInTheOrderOfCallingTheDraftModelLast) {
  EXPECT_THAT(Names("lookup", kNoFiles), ElementsAre("lookup"));
  EXPECT_THAT(Names("suffix+recycling", kNoFiles), ElementsAre("suffix", "recycling"));
  // It fills what the cheap ones leave of the budget.
  EXPECT_THAT(Names("draft+suffix", kAllFiles), ElementsAre("suffix", "draft"));
}

TEST(DrafterList, AutoTakesWhatTheFilesAllow) {
  EXPECT_THAT(Names("auto", kNoFiles), ElementsAre("suffix"));
  EXPECT_THAT(Names("auto", kAllFiles), ElementsAre("suffix", "rest", "draft"));
}

TEST(DrafterList, AdaptsUnlessADrafterSaysHowMuchItNeeds) {
  const auto can_adapt = [](std::string_view list) {
    const auto rows = ParseDrafterList(list, kAllFiles);
    return rows.ok() && CanAdapt(*rows);
  };
  for (const char* list : {"auto", "draft", "lookup", "suffix+draft"}) {
    EXPECT_TRUE(can_adapt(list)) << list;
  }
  for (const char* list : {"none", "lookahead", "lookahead+suffix"}) {
    EXPECT_FALSE(can_adapt(list)) << list;
  }
}

TEST(DrafterList, WhatIsWrongIsNamed) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  const std::string unknown = Error("nonesuch", kAllFiles, invalid);
  EXPECT_THAT(unknown, HasSubstr("'nonesuch'"));
  EXPECT_THAT(unknown, HasSubstr("none, draft, lookup"));
  EXPECT_THAT(Error("suffix+", kAllFiles, invalid), HasSubstr("''"));
  EXPECT_THAT(Error("suffix+suffix", kAllFiles, invalid), HasSubstr("twice"));
  EXPECT_THAT(Error("none+suffix", kAllFiles, invalid), HasSubstr("no other drafter"));
  const auto missing = absl::StatusCode::kFailedPrecondition;
  EXPECT_THAT(Error("draft", kNoFiles, missing), HasSubstr("-md"));
  EXPECT_THAT(Error("rest", kNoFiles, missing), HasSubstr("--datastore"));
}

}  // namespace
}  // namespace tahmin
