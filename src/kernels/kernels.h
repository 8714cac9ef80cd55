// The element-wise and attention operations of a model, each on its own row(s): the result of a row
// depends on that row's inputs alone, with the same lane layout and the same order of sums for any
// number of rows (batch invariance). All pointers are float32 unless said otherwise and need no
// alignment; sizes need not be multiples of a vector: tails run the same vector code, masked. `out`
// may equal the first input where said "in place". Compiled for every Highway target; the plain
// scalar forms are in kernels/reference/. Matrix products are in matmul.h.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"

namespace tahmin::kernels {

// out[i] = x[i] / sqrt(mean(x^2) + epsilon) * weight[i]. In place.
void RmsNorm(const float* x, const float* weight, float epsilon, int64_t size, float* out);

// x[i] += y[i]. In place.
void Add(float* x, const float* y, int64_t size);

// out[i] = silu(gate[i]) * up[i], silu(v) = v / (1 + exp(-v)). In place on gate.
void SiluMultiply(const float* gate, const float* up, int64_t size, float* out);

// The probability of the largest of `size` (>= 1) logits under their softmax, within 1e-4. An
// estimate for planning: its bits may differ between instruction sets. NaN or anything for NaN
// logits.
float TopProbability(const float* logits, int64_t size);

// cos/sin tables of one position: cosines[i], sines[i], i in [0, rotary_dimensions / 2).
struct RopeTable {
  const float* cosines;
  const float* sines;
};
enum class RopeStyle { kInterleaved /* pairs (2i, 2i+1) */, kNeox /* pairs (i, i + n/2) */ };

// Rotates the first rotary_dimensions of each of num_heads heads of [num_heads, head_dim]. In
// place.
void Rope(float* heads, int32_t num_heads, int32_t head_dim, int32_t rotary_dimensions,
          RopeStyle style, const RopeTable& table);

// Exact conversions of n values (round to nearest even on the way down).
void FloatToHalfRow(const float* in, int64_t n, uint16_t* out);
void HalfToFloatRow(const uint16_t* in, int64_t n, float* out);

// True when no value is NaN.
bool HasNoNan(const float* x, int64_t size);

// Keys and values of one layer of one sequence, as the cache stores them (step/kv_layout.h).
struct KvRows {
  const void* keys = nullptr;  // f16 or f32
  const void* values = nullptr;
  int64_t num_slots = 0;  // whole blocks
  bool is_half = true;
};

// One query row. It attends to the logical positions 0 .. prefix_length + tail_size - 1, of which
// position p < prefix_length lies in slot p, and position prefix_length + i in slot tail_slots[i]
// (ancestors in the tree, the row itself last: keys and values are read back in cache precision,
// the row's own included).
struct AttentionRow {
  const float* queries = nullptr;  // [num_heads, head_dim], rotated
  float* out = nullptr;            // [num_heads, head_dim]
  KvRows kv;
  int64_t prefix_length = 0;
  const int32_t* tail_slots = nullptr;
  int32_t tail_size = 0;
};

struct AttentionShape {
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;  // divides num_heads
  int32_t head_dim = 0;
  float scale = 0.0f;  // multiplies the scores
  int64_t window = 0;  // sliding window: only the last `window` positions (own included); 0: all
};

// Softmax(scale * q . k) . v for every row and head, keys in logical position order in blocks
// aligned to multiples of kAttentionBlock from position 0, running maximum and sum per block
// (Milakov and Gimelshein, arXiv 1805.02867). A masked key adds nothing. Splits (row, kv head) over
// threads. scratch: AttentionScratchFloats(shape) floats per thread.
int64_t AttentionScratchFloats(const AttentionShape& shape);
void Attention(std::span<const AttentionRow> rows, const AttentionShape& shape, float* scratch,
               ThreadPool& pool);

}  // namespace tahmin::kernels
