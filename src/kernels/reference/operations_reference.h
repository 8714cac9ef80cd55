// The operations of kernels.h, written as their definition says, in double precision: what the fast
// forms are tested against. Slow; for tests and benchmarks only.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"

namespace tahmin::kernels::reference {

void RmsNorm(const float* x, const float* weight, float epsilon, int64_t size, double* out);
void SiluMultiply(const float* gate, const float* up, int64_t size, double* out);
void Rope(const float* heads, int32_t num_heads, int32_t head_dim, int32_t rotary_dimensions,
          RopeStyle style, const RopeTable& table, double* out);
// out [num_heads, head_dim].
void Attention(const AttentionRow& row, const AttentionShape& shape, double* out);

}  // namespace tahmin::kernels::reference
