// A fixture that runs each test once for every supported ISA, so that what TAHMIN_ISA can choose is
// what has been tested, and once for every other Highway target of this machine. Test support only.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/highway.h"
#include "kernels/isa.h"

namespace tahmin::kernels {

struct TargetChoice {
  int64_t highway_target = 0;  // 0: by ISA
  Isa isa = Isa::kPortable;

  std::string Name() const {
    if (highway_target == 0) return "Isa_" + std::string(IsaName(isa));
    return std::string("Target_") + hwy::TargetName(highway_target);
  }
};

inline std::vector<TargetChoice> AllTargetChoices() {
  std::vector<TargetChoice> choices;
  hwy::SetSupportedTargetsForTest(0);
  std::vector<int64_t> others = hwy::SupportedAndGeneratedTargets();  // best first
  for (Isa isa : SupportedIsas()) {
    choices.push_back({0, isa});
    const auto picked = std::find_if(others.begin(), others.end(), [isa](int64_t target) {
      return (target & HighwayTargetsOf(isa)) != 0;
    });
    if (picked != others.end()) others.erase(picked);
  }
  for (int64_t target : others) choices.push_back({target, Isa::kPortable});
  return choices;
}

class EachTargetTest : public ::testing::TestWithParam<TargetChoice> {
 protected:
  void SetUp() override {
    ForceIsaForTest(GetParam().isa);
    if (GetParam().highway_target != 0) {
      hwy::SetSupportedTargetsForTest(GetParam().highway_target);
    }
  }
  void TearDown() override { ForceIsaForTest(SupportedIsas().back()); }
};

inline auto EachTarget() { return ::testing::ValuesIn(AllTargetChoices()); }
inline std::string TargetChoiceName(const ::testing::TestParamInfo<TargetChoice>& info) {
  return info.param.Name();
}

}  // namespace tahmin::kernels
