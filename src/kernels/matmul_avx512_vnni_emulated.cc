// For tests: the very source of matmul_avx512_vnni.cc, its 512-bit intrinsics mapped to SIMDe, so
// that a CPU without AVX-512 can check it. Exports kMatMulAvx512VnniEmulated. The bits of integers
// are those of the real instructions; fused multiply-adds may be rounded twice.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "simde/x86/avx512.h"

namespace tahmin::kernels {
namespace emulation {
namespace {

// What this SIMDe lacks.
template <typename To, typename From, typename Element, typename Convert>
To Elementwise(const From& from, Convert convert) {
  Element in[sizeof(From) / sizeof(Element)];
  decltype(convert(in[0])) out[sizeof(From) / sizeof(Element)];
  static_assert(sizeof(in) == sizeof(From) && sizeof(out) == sizeof(To));
  std::memcpy(in, &from, sizeof(in));
  for (size_t i = 0; i < sizeof(From) / sizeof(Element); ++i) out[i] = convert(in[i]);
  To to;
  std::memcpy(&to, out, sizeof(to));
  return to;
}

inline simde__m512i ShiftRightArithmetic(simde__m512i a, int count) {
  return Elementwise<simde__m512i, simde__m512i, int32_t>(a, [=](int32_t v) { return v >> count; });
}
inline simde__m512i UnsignedToShort(__m256i a) {
  return Elementwise<simde__m512i, __m256i, uint8_t>(
      a, [](uint8_t v) { return static_cast<int16_t>(v); });
}
inline simde__m512 ToFloat(simde__m512i a) {
  return Elementwise<simde__m512, simde__m512i, int32_t>(
      a, [](int32_t v) { return static_cast<float>(v); });
}
inline simde__m512 HalfToFloats(__m256i a) {
  const __m256 parts[2] = {_mm256_cvtph_ps(_mm256_castsi256_si128(a)),
                           _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1))};
  simde__m512 to;
  std::memcpy(&to, parts, sizeof(to));
  return to;
}

}  // namespace
}  // namespace emulation
}  // namespace tahmin::kernels

#define TAHMIN_EMULATED_INTRINSICS
#define __m512i simde__m512i
#define __m512 simde__m512
#define _mm512_loadu_si512 simde_mm512_loadu_si512
#define _mm512_loadu_ps simde_mm512_loadu_ps
#define _mm512_storeu_ps simde_mm512_storeu_ps
#define _mm512_set1_epi8 simde_mm512_set1_epi8
#define _mm512_set1_epi32 simde_mm512_set1_epi32
#define _mm512_set1_ps simde_mm512_set1_ps
#define _mm512_setzero_si512 simde_mm512_setzero_si512
#define _mm512_setzero_ps simde_mm512_setzero_ps
#define _mm512_and_si512 simde_mm512_and_si512
#define _mm512_or_si512 simde_mm512_or_si512
#define _mm512_xor_si512 simde_mm512_xor_si512
#undef _mm512_slli_epi16
#define _mm512_slli_epi16 simde_mm512_slli_epi16
#undef _mm512_srli_epi16
#define _mm512_srli_epi16 simde_mm512_srli_epi16
#undef _mm512_slli_epi32
#define _mm512_slli_epi32 simde_mm512_slli_epi32
#undef _mm512_srai_epi32
#define _mm512_srai_epi32 emulation::ShiftRightArithmetic
#define _mm512_add_epi32 simde_mm512_add_epi32
#define _mm512_sub_epi32 simde_mm512_sub_epi32
#define _mm512_mullo_epi32 simde_mm512_mullo_epi32
#define _mm512_dpwssd_epi32 simde_mm512_dpwssd_epi32
#define _mm512_dpbusd_epi32 simde_mm512_dpbusd_epi32
#define _mm512_cvtepu8_epi16 emulation::UnsignedToShort
#define _mm512_cvtepi8_epi16 simde_mm512_cvtepi8_epi16
#define _mm512_cvtph_ps emulation::HalfToFloats
#define _mm512_cvtepi32_ps emulation::ToFloat
#define _mm512_mul_ps simde_mm512_mul_ps
#define _mm512_fmadd_ps simde_mm512_fmadd_ps
#define _mm512_fnmadd_ps simde_mm512_fnmadd_ps

#define kMatMulAvx512Vnni kMatMulAvx512VnniEmulated
#define avx512_vnni avx512_vnni_emulated

#include "kernels/matmul_avx512_vnni.cc"
