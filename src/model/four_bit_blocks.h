// Rows quantised again to 4 bits, for the weights of a draft model: what a draft step costs is the
// bytes that it reads, and a draft need not be exact. Better than rounding: for every block of 32
// the grid is fitted to the values by least squares, over a few ways to clip the outermost ones.
// The same bits on every thread count; usable from any thread.
#pragma once

#include <cstdint>
#include <span>

#include "base/tensor_type.h"

namespace tahmin {

// The type that a matrix of this type and width is quantised to: itself where it has no more than
// 4 bits (Q4_K, Q4_1, Q4_0, Q2_K) or where the columns fit no block; Q4_K (blocks of 256) where the
// columns allow, else Q4_0 (blocks of 32).
TensorType FourBitType(TensorType stored, int64_t columns);

// Quantises to Q4_0 or Q4_K blocks. values.size() is a multiple of the block, `blocks` exactly
// their size. A block with a value that is not finite stands for NaN, as a broken file should.
void QuantizeFourBits(TensorType type, std::span<const float> values, std::span<uint8_t> blocks);

}  // namespace tahmin
