// The kernels of matmul_avx2.cc and matmul_avx2_blocks.cc for CPUs with AVX-VNNI: the same source,
// the products of four columns added up by vpdpbusd. Exports kMatMulAvxVnni. Integers are exact
// either way, so its bits are those of AVX2.
#define TAHMIN_AVX_VNNI
#define avx2 avx_vnni
#define kMatMulAvx2 kMatMulAvxVnni
#define MatMulQ4BlockAvx2 MatMulQ4BlockAvxVnni
#define MatMulQ5BlockAvx2 MatMulQ5BlockAvxVnni
#define MatMulQ8BlockAvx2 MatMulQ8BlockAvxVnni
#include "kernels/matmul_avx2.cc"
#include "kernels/matmul_avx2_blocks.cc"
