// How the input of each kind of matrix is quantised (kernels/activation_rows.h): block width and
// residual threshold. The rule looks at the structure of the weights only, so it holds for models
// never seen here.
//
// Weights in blocks of 32 (Q4_0 ... Q8_0) need a float multiply-add every 32 columns anyway, so an
// activation scale every 32 columns is free: block 32, and no residual rows, since a peak spoils
// only the 32 columns around it. Super-blocks (K types) keep integer sums over 256 columns: block
// 256 (or the widest power of two that divides the columns), and rows whose peak exceeds 24 times
// their root mean square get a residual row.
//
// Measured on the golden prompts (mean KL to an fp32 forward pass; share of residual rows; AVX2):
// - SmolLM2-135M Q4_1: 2.3e-3, none. Block 64 above 20 x rms: 3.8e-3, 7 %.
// - Qwen2.5-0.5B Q4_K_M (down projection of K types): 5.6e-4, 4 %. All 128 above 20: 8.2e-4, 10 %.
// - Qwen2.5-1.5B Q4_K_M: 1.0e-3, 11 %. Above 20: 6.1e-4, 13 %; above 30: 1.1e-3, 7 %.
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

// One line for each kind: "attention input: block 256, residual above 24 x rms".
std::string DescribeFormats(const ActivationFormats& formats);

}  // namespace tahmin
