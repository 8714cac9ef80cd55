// The options of the drafter and of the acceptance rule.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "tahmin/options.h"

namespace CLI {
class App;
}

namespace tahmin::cli {

// --spec --draft-max --draft-width --lookup-min --lookup-max --lookahead-* --accept
struct DraftFlags {
  DraftOptions draft;
  std::string spec;                  // empty: auto
  std::optional<int32_t> draft_max;  // unset: what suits the drafter
  std::string accept = "keyed";

  void AddTo(CLI::App& command);
  // `engine` says which files there are; `flag` is what messages call --spec.
  absl::StatusOr<DraftOptions> Resolve(const EngineOptions& engine,
                                       const std::string& flag = "--spec") const;
};

absl::StatusOr<AcceptanceRuleKind> ParseAcceptance(const std::string& accept);  // of --accept

// Whether any of the drafters guesses with the draft model.
bool UsesDraftModel(const DraftOptions& draft, const EngineOptions& engine);

}  // namespace tahmin::cli
