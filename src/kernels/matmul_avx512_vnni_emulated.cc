// For tests: the very source of matmul_avx512_vnni.cc and matmul_avx512_vnni_blocks.cc, the 512-bit
// intrinsics written out as pairs of AVX2 ones, so that a CPU without AVX-512 can check it. Exports
// kMatMulAvx512VnniEmulated; its bits are the real ones.
#include <immintrin.h>

#include <cstdint>

#include "kernels/four_products_test.h"

namespace tahmin::kernels {
namespace emulation {
namespace {

struct Ints {
  __m256i low, high;
};
struct Floats {
  __m256 low, high;
};

template <typename Operation>
inline Ints Each(Ints a, Operation operation) {
  return {operation(a.low), operation(a.high)};
}
template <typename Operation>
inline Ints Each(Ints a, Ints b, Operation operation) {
  return {operation(a.low, b.low), operation(a.high, b.high)};
}

inline Ints Load(const uint8_t* bytes) {
  const __m256i* parts = reinterpret_cast<const __m256i*>(bytes);
  return {_mm256_loadu_si256(parts), _mm256_loadu_si256(parts + 1)};
}
inline Floats Load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
inline void Store(float* to, Floats a) {
  _mm256_storeu_ps(to, a.low);
  _mm256_storeu_ps(to + 8, a.high);
}
inline void Store(uint8_t* to, Ints a) {
  __m256i* parts = reinterpret_cast<__m256i*>(to);
  _mm256_storeu_si256(parts, a.low);
  _mm256_storeu_si256(parts + 1, a.high);
}
inline Ints Set(__m256i half) { return {half, half}; }
inline Floats Set(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }

inline Ints And(Ints a, Ints b) {
  return Each(a, b, [](__m256i x, __m256i y) { return _mm256_and_si256(x, y); });
}
inline Ints Or(Ints a, Ints b) {
  return Each(a, b, [](__m256i x, __m256i y) { return _mm256_or_si256(x, y); });
}
inline Ints Xor(Ints a, Ints b) {
  return Each(a, b, [](__m256i x, __m256i y) { return _mm256_xor_si256(x, y); });
}
// vpternlogd of the truth table that the kernels use: c where b has ones, a where it has zeros.
template <int kTable>
inline Ints TernaryLogic(Ints a, Ints b, Ints c) {
  static_assert(kTable == 0xB8);
  return Or(And(b, c), Each(b, a, [](__m256i x, __m256i y) { return _mm256_andnot_si256(x, y); }));
}
inline Ints Add(Ints a, Ints b) {
  return Each(a, b, [](__m256i x, __m256i y) { return _mm256_add_epi32(x, y); });
}
inline Ints Multiply16(Ints a, Ints b) {
  return Each(a, b, [](__m256i x, __m256i y) { return _mm256_mullo_epi16(x, y); });
}
inline Ints ShuffleBytes(Ints a, Ints b) {
  return Each(a, b, [](__m256i x, __m256i y) { return _mm256_shuffle_epi8(x, y); });
}
inline Ints ShiftLeft16(Ints a, int n) {
  return Each(a, [n](__m256i x) { return _mm256_slli_epi16(x, n); });
}
inline Ints ShiftRight16(Ints a, int n) {
  return Each(a, [n](__m256i x) { return _mm256_srli_epi16(x, n); });
}
inline Ints WidenUnsigned(__m256i a) {
  return {_mm256_cvtepu8_epi16(_mm256_castsi256_si128(a)),
          _mm256_cvtepu8_epi16(_mm256_extracti128_si256(a, 1))};
}
inline Ints WidenSigned(__m256i a) {
  return {_mm256_cvtepi8_epi16(_mm256_castsi256_si128(a)),
          _mm256_cvtepi8_epi16(_mm256_extracti128_si256(a, 1))};
}
inline Ints AddFourProducts(Ints sum, Ints a, Ints b) {
  return {emulation::AddFourProducts(sum.low, a.low, b.low),
          emulation::AddFourProducts(sum.high, a.high, b.high)};
}
inline Ints AddPairProducts(Ints sum, Ints a, Ints b) {
  return Add(sum, Each(a, b, [](__m256i x, __m256i y) { return _mm256_madd_epi16(x, y); }));
}

inline Floats ToFloat(Ints a) { return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)}; }
inline Floats HalvesToFloat(__m256i a) {
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(a)),
          _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1))};
}
inline Floats Multiply(Floats a, Floats b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
inline Floats MultiplyAdd(Floats a, Floats b, Floats c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Floats NegativeMultiplyAdd(Floats a, Floats b, Floats c) {
  return {_mm256_fnmadd_ps(a.low, b.low, c.low), _mm256_fnmadd_ps(a.high, b.high, c.high)};
}

}  // namespace
}  // namespace emulation
}  // namespace tahmin::kernels

#undef _mm512_slli_epi16
#undef _mm512_srli_epi16
#undef _mm512_ternarylogic_epi32
#define __m512i emulation::Ints
#define __m512 emulation::Floats
#define _mm512_loadu_si512 emulation::Load
#define _mm512_storeu_si512 emulation::Store
#define _mm512_loadu_ps emulation::Load
#define _mm512_storeu_ps emulation::Store
#define _mm512_set1_epi8(value) emulation::Set(_mm256_set1_epi8(value))
#define _mm512_set1_epi16(value) emulation::Set(_mm256_set1_epi16(value))
#define _mm512_set4_epi32(d, c, b, a) emulation::Set(_mm256_set_epi32(d, c, b, a, d, c, b, a))
#define _mm512_set1_epi32(value) emulation::Set(_mm256_set1_epi32(value))
#define _mm512_setzero_si512() emulation::Set(_mm256_setzero_si256())
#define _mm512_set1_ps emulation::Set
#define _mm512_setzero_ps() emulation::Set(0.0f)
#define _mm512_and_si512 emulation::And
#define _mm512_or_si512 emulation::Or
#define _mm512_xor_si512 emulation::Xor
#define _mm512_slli_epi16 emulation::ShiftLeft16
#define _mm512_srli_epi16 emulation::ShiftRight16
#define _mm512_add_epi32 emulation::Add
#define _mm512_mullo_epi16 emulation::Multiply16
#define _mm512_shuffle_epi8 emulation::ShuffleBytes
#define _mm512_ternarylogic_epi32(a, b, c, table) emulation::TernaryLogic<table>(a, b, c)
#define _mm512_dpwssd_epi32 emulation::AddPairProducts
#define _mm512_dpbusd_epi32 emulation::AddFourProducts
#define _mm512_cvtepu8_epi16 emulation::WidenUnsigned
#define _mm512_cvtepi8_epi16 emulation::WidenSigned
#define _mm512_cvtph_ps emulation::HalvesToFloat
#define _mm512_cvtepi32_ps emulation::ToFloat
#define _mm512_mul_ps emulation::Multiply
#define _mm512_fmadd_ps emulation::MultiplyAdd
#define _mm512_fnmadd_ps emulation::NegativeMultiplyAdd

#define TAHMIN_EMULATED_INTRINSICS
#define kMatMulAvx512Vnni kMatMulAvx512VnniEmulated
#define avx512_vnni avx512_vnni_emulated

#include "kernels/matmul_avx512_vnni.cc"
#include "kernels/matmul_avx512_vnni_blocks.cc"
