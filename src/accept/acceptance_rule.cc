#include "accept/acceptance_rule.h"

#include "base/check.h"

namespace tahmin {

std::unique_ptr<AcceptanceRule> MakeAcceptanceRule(AcceptanceRuleKind kind,
                                                   const SamplingOptions& options) {
  switch (kind) {
    case AcceptanceRuleKind::kKeyed:
      return MakeKeyedMatch(options);
    case AcceptanceRuleKind::kRejection:
      return MakeRejectionTree(options);
  }
  TAHMIN_CHECK(false);
  return nullptr;
}

}  // namespace tahmin
