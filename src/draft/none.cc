// `none`: never guesses. Plain decoding is this drafter, so that the baseline runs the same code.
#include "draft/none.h"

namespace tahmin {
namespace {

class None : public Drafter {
 public:
  std::string_view Name() const override { return "none"; }
  void Begin(const SequenceView&) override {}
  DraftTree Draft(const SequenceView&, const DraftBudget&) override { return {}; }
  void Observe(const SequenceView&, const DraftTree&, const VerifiedTree&, const AcceptedPath&,
               std::span<const int32_t>) override {}
};

}  // namespace

std::unique_ptr<Drafter> MakeNone() { return std::make_unique<None>(); }

}  // namespace tahmin
