// Which instruction set runs. Detected once; TAHMIN_ISA forces one by name, and forcing what the
// CPU lacks is an error that names it, never a fallback. Bits may differ between ISAs, never
// between row counts, thread counts or chunkings.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tahmin::kernels {

enum class Isa { kPortable, kNeonDot, kAvx2, kAvxVnni, kAvx512Vnni };

// "portable", "neon_dot", "avx2", "avx_vnni", "avx512_vnni"
std::string_view IsaName(Isa isa);

// The Highway targets that an ISA allows, as a mask of which Highway picks the best; its baseline
// (what the build was compiled for) is always in it.
int64_t HighwayTargetsOf(Isa isa);

// What this CPU (and this build) can run, best last. Always holds kPortable.
std::vector<Isa> SupportedIsas();

// The ISA in use: TAHMIN_ISA if set (INVALID_ARGUMENT: unknown name, with the known ones;
// FAILED_PRECONDITION: this CPU lacks it, with those it has), else the best. The first successful
// call fixes the choice for the process, Highway's targets included; portable code then uses
// Highway's baseline target (what the build was compiled for).
absl::StatusOr<Isa> SelectIsa();

// A supported ISA by name; the errors of SelectIsa.
absl::StatusOr<Isa> FindIsa(std::string_view name);

// What detection reads on x86: CPUID leaf 1, leaf 7 and its subleaf 1, and XCR0 (0 where the system
// does not say). Apart from the reading, so that recorded machines can be tested.
struct X86Features {
  uint32_t leaf1_ecx = 0;
  uint32_t leaf7_ebx = 0;
  uint32_t leaf7_ecx = 0;
  uint32_t leaf7_1_eax = 0;
  uint64_t xcr0 = 0;
};
std::vector<Isa> X86Isas(const X86Features& features);

// The same on 64-bit Arm, from AT_HWCAP of the auxiliary vector.
std::vector<Isa> ArmIsas(uint64_t hwcap);

// For tests: switches at run time between supported ISAs. Not while kernels run.
// A later SelectIsa keeps the forced one.
void ForceIsaForTest(Isa isa);
Isa ActiveIsa();  // after SelectIsa or ForceIsaForTest; the best supported one before

}  // namespace tahmin::kernels
