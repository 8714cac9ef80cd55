// The options of the drafter and of the acceptance rule.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "tahmin/options.h"

namespace tahmin::cli {

// --spec --draft-max --lookup-min --lookup-max --accept
struct DraftFlags {
  DraftOptions draft;
  std::string spec;  // empty: `draft` when a draft model is given, else `none`
  std::string accept = "keyed";

  void AddTo(CLI::App& command);
  absl::StatusOr<DraftOptions> Resolve(const std::string& draft_model_path,
                                       const std::string& flag = "--spec") const;
  absl::StatusOr<AcceptanceRuleKind> ResolveAcceptance() const;
};

}  // namespace tahmin::cli
