// The exact value of every weight, as the GGUF block formats define it (float32 arithmetic in the
// order that ggml's reference uses: scale products first, then the multiply with the quant, then
// the subtraction of the minimum; no fused multiply-add). The oracle for packing, and the way
// embedding rows and norm vectors are read.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "base/tensor_type.h"

namespace tahmin {

// `blocks` holds out.size() elements of `type` (a multiple of its block size; checked).
absl::Status DequantizeRow(TensorType type, std::span<const uint8_t> blocks, std::span<float> out);

// The other way, by plain round-to-nearest rules. For tests and tiny models; any type of
// TensorTypeTraits with is_weight. `out` has exactly the size of the blocks.
absl::Status QuantizeRow(TensorType type, std::span<const float> values, std::span<uint8_t> out);

}  // namespace tahmin
