// For tests: the very source of matmul_avx_vnni.cc, vpdpbusd written out in AVX2, so that a CPU
// without AVX-VNNI can check it. Exports kMatMulAvxVnniEmulated; its bits are the real ones.
#include "kernels/four_products_test.h"

#define _mm256_dpbusd_avx_epi32 emulation::AddFourProducts
#define TAHMIN_AVX_VNNI
#define avx2 avx_vnni_emulated
#define kMatMulAvx2 kMatMulAvxVnniEmulated
#define MatMulQ4BlockAvx2 MatMulQ4BlockAvxVnniEmulated
#define MatMulQ5BlockAvx2 MatMulQ5BlockAvxVnniEmulated
#define MatMulQ8BlockAvx2 MatMulQ8BlockAvxVnniEmulated
#include "kernels/matmul_avx2.cc"
#include "kernels/matmul_avx2_blocks.cc"
