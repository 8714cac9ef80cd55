#include "kernels/isa.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "hwy/highway.h"

namespace tahmin::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kFma = 1u << 12, kOsXsave = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;
constexpr uint32_t kAvx2 = 1u << 5, kAvx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
constexpr uint32_t kVnni = 1u << 11;

// Recorded shapes of machines.
constexpr uint32_t kAvxVnni = 1u << 4;
constexpr X86Features kZen4 = {kFma | kOsXsave | kAvx | kF16c, kAvx2 | kAvx512, kVnni, 0, 0xe7};
constexpr X86Features kZen3 = {kFma | kOsXsave | kAvx | kF16c, kAvx2, 0, 0, 0x7};
constexpr X86Features kAlderLake = {kFma | kOsXsave | kAvx | kF16c, kAvx2, 0, kAvxVnni, 0x7};
constexpr X86Features kSapphireRapids = {kFma | kOsXsave | kAvx | kF16c, kAvx2 | kAvx512, kVnni,
                                         kAvxVnni, 0xe7};

TEST(X86Isas, FollowTheFeatureBits) {
  EXPECT_THAT(X86Isas(X86Features{}), ElementsAre(Isa::kPortable));
  EXPECT_THAT(X86Isas(kZen3), ElementsAre(Isa::kPortable, Isa::kAvx2));
  EXPECT_THAT(X86Isas(kZen4), ElementsAre(Isa::kPortable, Isa::kAvx2, Isa::kAvx512Vnni));
  EXPECT_THAT(X86Isas(kAlderLake), ElementsAre(Isa::kPortable, Isa::kAvx2, Isa::kAvxVnni));
  EXPECT_THAT(X86Isas(kSapphireRapids),
              ElementsAre(Isa::kPortable, Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512Vnni));
}

TEST(X86Isas, RegistersThatTheSystemDoesNotSaveAreNotUsed) {
  X86Features features = kZen4;
  features.xcr0 = 0x7;
  EXPECT_THAT(X86Isas(features), ElementsAre(Isa::kPortable, Isa::kAvx2));
  features.xcr0 = 0x3;
  EXPECT_THAT(X86Isas(features), ElementsAre(Isa::kPortable));
}

TEST(X86Isas, EachMissingFeatureCounts) {
  for (uint32_t bit : {kFma, kOsXsave, kAvx, kF16c}) {
    X86Features features = kZen4;
    features.leaf1_ecx &= ~bit;
    EXPECT_THAT(X86Isas(features), ElementsAre(Isa::kPortable)) << bit;
  }
  for (int shift : {16, 17, 30, 31}) {
    X86Features features = kZen4;
    features.leaf7_ebx &= ~(1u << shift);
    EXPECT_THAT(X86Isas(features), ElementsAre(Isa::kPortable, Isa::kAvx2)) << shift;
  }
  X86Features features = kZen4;  // AVX-512 without VNNI, as Skylake-X
  features.leaf7_ecx = 0;
  EXPECT_THAT(X86Isas(features), ElementsAre(Isa::kPortable, Isa::kAvx2));
}

TEST(ArmIsas, FollowTheDotProductBit) {
  EXPECT_THAT(ArmIsas(0), ElementsAre(Isa::kPortable));
  EXPECT_THAT(ArmIsas(0xff), ElementsAre(Isa::kPortable));                            // Cortex-A53
  EXPECT_THAT(ArmIsas(1u << 20 | 0xff), ElementsAre(Isa::kPortable, Isa::kNeonDot));  // A76
}

// TAHMIN_EXPECTED_ISAS is set where the CPU is known: an emulated one.
TEST(SupportedIsas, StartWithPortableAndAreThoseOfTheCpu) {
  std::string names;
  for (Isa isa : SupportedIsas()) {
    if (!names.empty()) names += ", ";
    names += IsaName(isa);
  }
  EXPECT_EQ(SupportedIsas().front(), Isa::kPortable);
  if (const char* expected = std::getenv("TAHMIN_EXPECTED_ISAS")) {
    EXPECT_EQ(names, expected);
  }
}

TEST(FindIsa, KnowsEverySupportedNameAndRefusesOthers) {
  for (Isa isa : SupportedIsas()) EXPECT_EQ(FindIsa(IsaName(isa)).value(), isa);
  const absl::Status unknown = FindIsa("avx3").status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.message()),
              HasSubstr("portable, neon_dot, avx2, avx_vnni, avx512_vnni"));
}

TEST(FindIsa, WhatTheCpuLacksIsAnErrorThatNamesWhatItHas) {
  const std::vector<Isa> supported = SupportedIsas();
  int num_missing = 0;
  for (Isa isa : {Isa::kNeonDot, Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512Vnni}) {
    if (std::find(supported.begin(), supported.end(), isa) != supported.end()) continue;
    ++num_missing;
    const absl::Status status = FindIsa(IsaName(isa)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(IsaName(isa))));
    EXPECT_THAT(std::string(status.message()), HasSubstr("it has portable"));
  }
  EXPECT_GE(num_missing, 1);  // no CPU is both x86 and Arm
}

// In a child process each: SelectIsa fixes the choice for the life of a process. Forked, not
// started anew, which an emulator could not do.
void ExitWithSelected(const char* name) {
  setenv("TAHMIN_ISA", name, 1);
  const absl::StatusOr<Isa> isa = SelectIsa();
  std::fputs(isa.ok() ? std::string(IsaName(*isa)).c_str() : isa.status().ToString().c_str(),
             stderr);
  std::fputs(isa.ok() && *isa == ActiveIsa() ? " active" : " refused", stderr);
  std::exit(isa.ok() ? 0 : 1);
}

TEST(SelectIsaDeathTest, EnvironmentForcesWhatTheCpuHas) {
  EXPECT_EXIT(ExitWithSelected("portable"), ::testing::ExitedWithCode(0), "portable active");
  EXPECT_EXIT(ExitWithSelected(""), ::testing::ExitedWithCode(0),
              std::string(IsaName(SupportedIsas().back())) + " active");
  EXPECT_EXIT(ExitWithSelected("sse9"), ::testing::ExitedWithCode(1), "TAHMIN_ISA.*sse9.* refused");
}

TEST(ForceIsaForTest, SwitchesHighwayToo) {
  for (Isa isa : SupportedIsas()) {
    ForceIsaForTest(isa);
    EXPECT_EQ(ActiveIsa(), isa);
    EXPECT_EQ(SelectIsa().value(), isa);
    const int64_t best = hwy::SupportedTargets() & -hwy::SupportedTargets();
    if (isa == Isa::kPortable) {
      EXPECT_EQ(best, HWY_STATIC_TARGET);
    }
    if (isa == Isa::kNeonDot) {
      EXPECT_EQ(best, HWY_NEON);
    }
    if (isa == Isa::kAvx2 || isa == Isa::kAvxVnni) {
      EXPECT_EQ(best, HWY_AVX2);
    }
    if (isa == Isa::kAvx512Vnni) {
      EXPECT_EQ(best, HWY_AVX3);
    }
  }
  ForceIsaForTest(SupportedIsas().back());
}

}  // namespace
}  // namespace tahmin::kernels
