#include "draft/registry.h"

#include <set>
#include <string_view>
#include <utility>

#include "gtest/gtest.h"

namespace tahmin {
namespace {

const DrafterRow& Row(std::string_view name) {
  for (const DrafterRow& row : AllDrafters())
    if (row.name == name) return row;
  ADD_FAILURE() << name;
  return AllDrafters()[0];
}

TEST(Registry, EveryRowMakesADrafterOfItsOwnName) {
  std::set<std::string_view> names;
  for (const DrafterRow& row : AllDrafters()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.summary.empty());
    if (row.needs_draft_model || row.needs_datastore) continue;
    DrafterContext context;
    context.draft_model.valid_vocab_size = 10;
    const auto drafter = row.make(context);
    ASSERT_TRUE(drafter.ok()) << drafter.status();
    EXPECT_EQ((*drafter)->Name(), row.name);
  }
  for (const char* name : {"none", "draft", "lookup", "rest", "replay", "junk", "script"}) {
    EXPECT_EQ(names.count(name), 1u) << name;
  }
}

TEST(Registry, LookupNgramsAreChecked) {
  for (const auto& [shortest, longest] : {std::pair{0, 4}, std::pair{3, 2}, std::pair{2, 1000}}) {
    DrafterContext context;
    context.options.lookup_min_ngram = shortest;
    context.options.lookup_max_ngram = longest;
    EXPECT_EQ(Row("lookup").make(context).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(Registry, ScriptThatEndsInsideATreeIsRefused) {
  DrafterContext context;
  context.script_tokens = {3, 1, -1};
  EXPECT_EQ(Row("script").make(context).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tahmin
