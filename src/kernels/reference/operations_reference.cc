#include "kernels/reference/operations_reference.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/half.h"
#include "step/kv_layout.h"

namespace tahmin::kernels::reference {
namespace {

double CacheValue(const KvRows& kv, const void* base, int64_t index) {
  return kv.is_half ? HalfToFloat(static_cast<const uint16_t*>(base)[index])
                    : static_cast<const float*>(base)[index];
}

int64_t SlotOf(const AttentionRow& row, int64_t position) {
  return position < row.prefix_length ? position : row.tail_slots[position - row.prefix_length];
}

void AttendHead(const AttentionRow& row, const AttentionShape& shape, int32_t head, double* out) {
  const int32_t kv_head = head / (shape.num_heads / shape.num_kv_heads);
  const int64_t end = row.prefix_length + row.tail_size;
  const int64_t start = shape.window > 0 ? std::max<int64_t>(0, end - shape.window) : 0;
  const float* query = row.queries + static_cast<int64_t>(head) * shape.head_dim;
  const int64_t num_slots = row.kv.num_slots, head_dim = shape.head_dim;

  std::vector<double> weights;
  double maximum = -INFINITY, sum = 0;
  for (int64_t p = start; p < end; ++p) {
    double score = 0;
    const int64_t offset = KeyOffset(kv_head, SlotOf(row, p), num_slots, head_dim);
    for (int32_t d = 0; d < head_dim; ++d) {
      score += query[d] * CacheValue(row.kv, row.kv.keys, offset + d * kAttentionBlock);
    }
    weights.push_back(score * shape.scale);
    maximum = std::max(maximum, weights.back());
  }
  for (double& weight : weights) sum += weight = std::exp(weight - maximum);
  std::fill_n(out, shape.head_dim, 0.0);
  for (int64_t p = start; p < end; ++p) {
    const int64_t offset = ValueOffset(kv_head, SlotOf(row, p), num_slots, head_dim);
    for (int32_t d = 0; d < head_dim; ++d) {
      out[d] += weights[p - start] / sum * CacheValue(row.kv, row.kv.values, offset + d);
    }
  }
}

}  // namespace

void RmsNorm(const float* x, const float* weight, float epsilon, int64_t size, double* out) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += static_cast<double>(x[i]) * x[i];
  const double norm = std::sqrt(sum / static_cast<double>(size) + epsilon);
  for (int64_t i = 0; i < size; ++i) out[i] = x[i] / norm * weight[i];
}

void SiluMultiply(const float* gate, const float* up, int64_t size, double* out) {
  for (int64_t i = 0; i < size; ++i) {
    const double v = gate[i];
    out[i] = v / (1 + std::exp(-v)) * up[i];
  }
}

void Rope(const float* heads, int32_t num_heads, int32_t head_dim, int32_t rotary_dimensions,
          RopeStyle style, const RopeTable& table, double* out) {
  std::copy_n(heads, static_cast<int64_t>(num_heads) * head_dim, out);
  const int32_t num_pairs = rotary_dimensions / 2;
  for (int32_t h = 0; h < num_heads; ++h) {
    const int64_t base = static_cast<int64_t>(h) * head_dim;
    for (int32_t i = 0; i < num_pairs; ++i) {
      const bool is_neox = style == RopeStyle::kNeox;
      const int64_t a = base + (is_neox ? i : 2 * i);
      const int64_t b = base + (is_neox ? i + num_pairs : 2 * i + 1);
      const double cosine = table.cosines[i], sine = table.sines[i];
      out[a] = heads[a] * cosine - heads[b] * sine;
      out[b] = heads[a] * sine + heads[b] * cosine;
    }
  }
}

void Attention(const AttentionRow& row, const AttentionShape& shape, double* out) {
  for (int32_t head = 0; head < shape.num_heads; ++head) {
    AttendHead(row, shape, head, out + static_cast<int64_t>(head) * shape.head_dim);
  }
}

}  // namespace tahmin::kernels::reference
