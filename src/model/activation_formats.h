// How the input of each kind of matrix is quantised (kernels/activation_rows.h): block width and
// residual threshold. The rule looks at the structure of the weights only, so it holds for models
// never seen here.
//
// Weights in blocks of 32 (Q4_0 ... Q8_0) need a float multiply-add every 32 columns anyway, so an
// activation scale every 32 columns is free: block 32, and no residual rows, since a peak spoils
// only the 32 columns around it. Super-blocks (K types) keep integer sums over 256 columns: block
// 256 (or the widest power of two that divides the columns), and rows one value of which holds more
// than a quarter of the row's energy (the sum of its squares) get a residual row: what the others
// say would be lost in the rounding of their block. A threshold in multiples of the root mean
// square, the same for every width, catches wide rows that do not need it: of a row of 1,536 values
// one holds a quarter above 19.6 x rms, of 8,960 above 47.3.
//
// Measured on the golden prompts (mean KL to an fp32 forward pass; share of residual rows;
// AVX-512):
// - SmolLM2-135M Q4_1: 2.5e-3, none. Block 64 above 20 x rms (AVX2): 3.8e-3, 7 %.
// - Qwen2.5-0.5B Q4_K_M (down projection of K types): 6.2e-4, 1.9 %. Above 24 x rms: 6.1e-4, 4.5 %.
// - Qwen2.5-1.5B Q4_K_M, a quarter: 9.3e-4, 5.1 %. An eighth: 3.8e-4, 10.5 %; three eighths:
//   1.2e-3, 4.1 %; a half: 1.3e-3, 3.2 %. Above 24 x rms: 8.5e-4, 10.8 %; 30: 1.0e-3, 6.9 %;
//   36: 5.9e-2, 3.6 %.
#pragma once

#include <span>
#include <string>

#include "kernels/activation_rows.h"
#include "model/architecture.h"

namespace tahmin {

struct ActivationFormats {
  kernels::ActivationFormat attention_input;  // query, key, value
  kernels::ActivationFormat attention_output;
  kernels::ActivationFormat feed_forward_input;  // gate, up
  kernels::ActivationFormat feed_forward_down;
  kernels::ActivationFormat output_head;
};

// The weights are packed. output_head: the matrix that is multiplied with all tokens' rows.
ActivationFormats ChooseActivationFormats(std::span<const LayerWeights> layers,
                                          const kernels::PackedMatrix& output_head);

// One line for each kind: "attention input: block 256, residual above 19.6 x rms".
std::string DescribeFormats(const ActivationFormats& formats);

}  // namespace tahmin
