#include "kernels/isa.h"

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "hwy/highway.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace tahmin::kernels {
namespace {

constexpr Isa kAllIsas[] = {Isa::kPortable, Isa::kNeonDot, Isa::kAvx2, Isa::kAvxVnni,
                            Isa::kAvx512Vnni};
constexpr int kUnset = -1;
std::atomic<int> active_isa{kUnset};

std::string JoinNames(std::span<const Isa> isas) {
  std::string names;
  for (Isa isa : isas)
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(IsaName(isa)));
  return names;
}

std::vector<Isa> DetectIsas() {
#if defined(__x86_64__) || defined(__i386__)
  X86Features features;
  uint32_t eax, ebx, ecx, edx;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx)) features.leaf1_ecx = ecx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
    features.leaf7_ebx = ebx;
    features.leaf7_ecx = ecx;
    const uint32_t last_subleaf = eax;
    if (last_subleaf >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx)) {
      features.leaf7_1_eax = eax;
    }
  }
  constexpr uint32_t kOsXsave = 1u << 27;
  if (features.leaf1_ecx & kOsXsave) {
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    features.xcr0 = low;
  }
  return X86Isas(features);
#elif defined(__aarch64__) && defined(__linux__)
  return ArmIsas(getauxval(AT_HWCAP));
#else
  return {Isa::kPortable};
#endif
}

const std::vector<Isa>& DetectedIsas() {
  static const std::vector<Isa>& isas = *new std::vector<Isa>(DetectIsas());
  return isas;
}

bool IsSupported(Isa isa) {
  for (Isa supported : DetectedIsas()) {
    if (supported == isa) return true;
  }
  return false;
}

void Activate(Isa isa) {
  hwy::SetSupportedTargetsForTest(
      0);  // back to what the CPU has, then the part of it that is wanted
  hwy::SetSupportedTargetsForTest((hwy::SupportedTargets() | HWY_STATIC_TARGET) &
                                  HighwayTargetsOf(isa));
  active_isa.store(static_cast<int>(isa), std::memory_order_release);
}

}  // namespace

int64_t HighwayTargetsOf(Isa isa) {
  switch (isa) {
    case Isa::kAvx512Vnni:
      return HWY_AVX3 | HWY_AVX2 | HWY_STATIC_TARGET;
    case Isa::kAvxVnni:
    case Isa::kAvx2:
      return HWY_AVX2 | HWY_STATIC_TARGET;
    case Isa::kNeonDot:
    case Isa::kPortable:
      break;
  }
  return HWY_STATIC_TARGET;
}

std::string_view IsaName(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kNeonDot:
      return "neon_dot";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvxVnni:
      return "avx_vnni";
    case Isa::kAvx512Vnni:
      return "avx512_vnni";
  }
  return "unknown";
}

std::vector<Isa> X86Isas(const X86Features& features) {
  constexpr uint32_t kFma = 1u << 12, kOsXsave = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;
  constexpr uint32_t kAvx2Leaf1 = kFma | kOsXsave | kAvx | kF16c;
  constexpr uint32_t kAvx2 = 1u << 5;
  constexpr uint32_t kAvx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // F, DQ, BW, VL
  constexpr uint32_t kVnni = 1u << 11;
  constexpr uint32_t kAvxVnni = 1u << 4;
  constexpr uint64_t kYmmState = 0x06;  // the system saves xmm and ymm registers
  constexpr uint64_t kZmmState = 0xe6;  // and mask and zmm registers
  const auto has_all = [](uint64_t value, uint64_t bits) { return (value & bits) == bits; };

  std::vector<Isa> isas = {Isa::kPortable};
  if (!has_all(features.leaf1_ecx, kAvx2Leaf1) || !has_all(features.leaf7_ebx, kAvx2) ||
      !has_all(features.xcr0, kYmmState)) {
    return isas;
  }
  isas.push_back(Isa::kAvx2);
  if (has_all(features.leaf7_1_eax, kAvxVnni)) isas.push_back(Isa::kAvxVnni);
  if (has_all(features.leaf7_ebx, kAvx512) && has_all(features.leaf7_ecx, kVnni) &&
      has_all(features.xcr0, kZmmState)) {
    isas.push_back(Isa::kAvx512Vnni);
  }
  return isas;
}

std::vector<Isa> ArmIsas(uint64_t hwcap) {
  constexpr uint64_t kDotProduct = uint64_t{1} << 20;  // HWCAP_ASIMDDP
  std::vector<Isa> isas = {Isa::kPortable};
  if ((hwcap & kDotProduct) != 0) isas.push_back(Isa::kNeonDot);
  return isas;
}

std::vector<Isa> SupportedIsas() { return DetectedIsas(); }

absl::StatusOr<Isa> FindIsa(std::string_view name) {
  for (Isa isa : kAllIsas) {
    if (IsaName(isa) != name) continue;
    if (IsSupported(isa)) return isa;
    return absl::FailedPreconditionError(absl::StrCat("instruction set \"", std::string(name),
                                                      "\": this CPU lacks it; it has ",
                                                      JoinNames(DetectedIsas())));
  }
  return absl::InvalidArgumentError(absl::StrCat("instruction set \"", std::string(name),
                                                 "\": unknown; known are ", JoinNames(kAllIsas)));
}

absl::StatusOr<Isa> SelectIsa() {
  static std::mutex& mutex = *new std::mutex;
  std::lock_guard<std::mutex> lock(mutex);
  const int active = active_isa.load(std::memory_order_acquire);
  if (active != kUnset) return static_cast<Isa>(active);
  Isa isa = DetectedIsas().back();
  if (const char* name = std::getenv("TAHMIN_ISA"); name != nullptr && *name != '\0') {
    absl::StatusOr<Isa> forced = FindIsa(name);
    if (!forced.ok()) {
      return absl::Status(forced.status().code(),
                          absl::StrCat("TAHMIN_ISA: ", forced.status().message()));
    }
    isa = *forced;
  }
  Activate(isa);
  return isa;
}

void ForceIsaForTest(Isa isa) {
  TAHMIN_CHECK(IsSupported(isa));
  Activate(isa);
}

Isa ActiveIsa() {
  const int active = active_isa.load(std::memory_order_acquire);
  return active != kUnset ? static_cast<Isa>(active) : DetectedIsas().back();
}

}  // namespace tahmin::kernels
