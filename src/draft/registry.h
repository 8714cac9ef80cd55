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

class Datastore;
class SuffixStore;

// What a factory may use; members that a drafter does not need may be unset. The pointers are owned
// by the engine and outlive the drafter.
struct DrafterContext {
  DraftOptions options;
  SamplingOptions sampling;              // seed filled in
  DraftModelResources draft_model;       // model == nullptr: no draft model loaded
  const Datastore* datastore = nullptr;  // null: no datastore loaded
  SuffixStore* suffix_store = nullptr;   // earlier outputs; null: none kept
  std::vector<int32_t>
      script_tokens;  // replay: prompt + output of an earlier run; script: see test_drafters.h
};

struct DrafterRow {
  std::string_view name;
  std::string_view summary;  // one line for --help
  bool is_test_only = false;
  bool needs_draft_model = false;
  bool needs_datastore = false;
  int32_t default_width = 1;  // most children of a node unless the request says
  bool is_in_auto = false;    // "auto" may use it
  // Draft tokens a step that suit it, where a user does not say; null: DraftOptions' default.
  int32_t (*default_draft_max)(const DraftOptions& options) = nullptr;
  // Memory of its tables when they are full, without a draft model's; null: not worth a mention.
  uint64_t (*table_bytes)(int64_t vocab_size, int64_t context_tokens) = nullptr;
  absl::StatusOr<std::unique_ptr<Drafter>> (*make)(const DrafterContext& context);
};

// drafter_list.h finds rows by name and checks that their files are there.
std::span<const DrafterRow> AllDrafters();

}  // namespace tahmin
