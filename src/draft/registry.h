// The explicit list of drafters (no self-registration: a static library drops objects that nobody
// names). A new drafter is one file, one test and one row in registry.cc.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "draft/draft_model.h"
#include "draft/drafter.h"
#include "tahmin/options.h"

namespace tahmin {

// What a factory may use; members that a drafter does not need may be unset.
struct DrafterContext {
  DraftOptions options;
  SamplingOptions sampling;         // seed filled in
  DraftModelResources draft_model;  // model == nullptr: no draft model loaded
  std::vector<int32_t>
      script_tokens;  // replay: prompt + output of an earlier run; script: see test_drafters.h
};

struct DrafterRow {
  std::string_view name;
  std::string_view summary;  // one line for --help
  bool is_test_only = false;
  bool needs_draft_model = false;
  absl::StatusOr<std::unique_ptr<Drafter>> (*make)(const DrafterContext& context);
};

std::span<const DrafterRow> AllDrafters();

// NOT_FOUND lists the known names; FAILED_PRECONDITION says what is missing (a draft model: -md).
absl::StatusOr<std::unique_ptr<Drafter>> MakeDrafter(std::string_view name,
                                                     const DrafterContext& context);

}  // namespace tahmin
