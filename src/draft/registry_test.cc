#include "draft/registry.h"

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tahmin {
namespace {

using testing::HasSubstr;

TEST(Registry, EveryRowIsFoundByItsOwnName) {
  std::set<std::string_view> names;
  for (const DrafterRow& row : AllDrafters()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.summary.empty());
    DrafterContext context;
    context.draft_model.valid_vocab_size = 10;
    const auto drafter = MakeDrafter(row.name, context);
    if (row.needs_draft_model) {
      EXPECT_EQ(drafter.status().code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(drafter.status().message()), HasSubstr("-md"));
      continue;
    }
    if (row.needs_datastore) {
      EXPECT_EQ(drafter.status().code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(drafter.status().message()), HasSubstr("--datastore"));
      continue;
    }
    ASSERT_TRUE(drafter.ok()) << drafter.status();
    EXPECT_EQ((*drafter)->Name(), row.name);
  }
  for (const char* name : {"none", "draft", "lookup", "rest", "replay", "junk", "script"}) {
    EXPECT_EQ(names.count(name), 1u) << name;
  }
}

TEST(Registry, UnknownNameListsTheKnownOnes) {
  const auto drafter = MakeDrafter("nonesuch", {});
  EXPECT_EQ(drafter.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(drafter.status().message()), HasSubstr("nonesuch"));
  EXPECT_THAT(std::string(drafter.status().message()), HasSubstr("none, draft, lookup"));
}

TEST(Registry, LookupNgramsAreChecked) {
  for (const auto& [shortest, longest] : {std::pair{0, 4}, std::pair{3, 2}, std::pair{2, 1000}}) {
    DrafterContext context;
    context.options.lookup_min_ngram = shortest;
    context.options.lookup_max_ngram = longest;
    EXPECT_EQ(MakeDrafter("lookup", context).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(Registry, ScriptThatEndsInsideATreeIsRefused) {
  DrafterContext context;
  context.script_tokens = {3, 1, -1};
  EXPECT_EQ(MakeDrafter("script", context).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tahmin
