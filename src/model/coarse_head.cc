#include "model/coarse_head.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "base/status_macros.h"
#include "kernels/kernels.h"
#include "model/forward_scratch.h"
#include "model/pack_tensor.h"

namespace tahmin {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kPeakBlock = 64;

float Dot(const float* a, const float* b, int64_t size) {
  float lanes[16] = {};
  int64_t i = 0;
  for (; i + 16 <= size; i += 16) {
    for (int64_t j = 0; j < 16; ++j) lanes[j] += a[i + j] * b[i + j];
  }
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  for (; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

float PeakOf(const float* values, int64_t count) {
  float peaks[8];
  std::fill_n(peaks, 8, -kInfinity);
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int64_t j = 0; j < 8; ++j) peaks[j] = values[i + j] > peaks[j] ? values[i + j] : peaks[j];
  }
  float peak = -kInfinity;
  for (; i < count; ++i) peak = values[i] > peak ? values[i] : peak;
  for (const float value : peaks) peak = value > peak ? value : peak;
  return peak;
}

// Exact logits of the candidates of one row, -infinity for all others.
void ComputeFinePass(const ForwardPass& pass, const CoarseHead& head, int32_t row) {
  constexpr int64_t kRowsOfATask = 8;
  ForwardScratch::State& scratch = pass.scratch;
  CoarseScratch& coarse = scratch.coarse;
  const std::vector<float>& bias = pass.weights.output.bias;
  const int64_t width = scratch.embedding_length;
  const auto count = static_cast<int64_t>(coarse.candidates.size());
  pass.pool.ParallelFor((count + kRowsOfATask - 1) / kRowsOfATask, [&](int64_t task, int thread) {
    float* weights = coarse.fine_rows.As<float>().data() + thread * width;
    const int64_t end = std::min(count, (task + 1) * kRowsOfATask);
    for (int64_t i = task * kRowsOfATask; i < end; ++i) {
      const int32_t token = coarse.candidates[i];
      ReadTensorRow(*head.all_rows, token, {weights, static_cast<size_t>(width)});
      coarse.fine_logits[i] =
          Dot(weights, scratch.hidden_row(row), width) + (bias.empty() ? 0.0f : bias[token]);
    }
  });
  float* logits = scratch.logits_row(row);
  std::fill_n(logits, scratch.vocab_size, -kInfinity);
  for (int64_t i = 0; i < count; ++i) logits[coarse.candidates[i]] = coarse.fine_logits[i];
}

}  // namespace

absl::StatusOr<CoarseHead> BuildCoarseHead(const GgufTensor& all_rows, const HeadShape& shape,
                                           const kernels::SlicedPool& pool) {
  constexpr int64_t kRowsOfATask = 64;
  const int64_t num_rows = all_rows.rows(), columns = all_rows.columns();
  CoarseHead head;
  head.all_rows = &all_rows;
  head.num_candidates = shape.num_tokens;
  TAHMIN_ASSIGN_OR_RETURN(head.coarse_rows, TwoBitRows::Create(num_rows, columns));
  pool.ForRows(num_rows, kRowsOfATask, [&](int64_t begin, int64_t end) {
    std::vector<float> values(static_cast<size_t>(columns));
    for (int64_t row = begin; row < end; ++row) {
      ReadTensorRow(all_rows, row, values);
      head.coarse_rows.SetRow(row, values);
    }
  });
  return head;
}

size_t CoarseHeadBytes(const GgufTensor& all_rows) {
  return TwoBitRows::Bytes(all_rows.rows(), all_rows.columns());
}

void PickLargest(std::span<const float> row, int32_t count, CoarseScratch& scratch) {
  const auto size = static_cast<int64_t>(row.size());
  std::vector<float>& peaks = scratch.peaks;
  peaks.clear();
  for (int64_t i = 0; i < size; i += kPeakBlock) {
    peaks.push_back(PeakOf(row.data() + i, std::min(kPeakBlock, size - i)));
  }
  // At least `count` blocks reach the count-th largest peak, so no value below it is wanted.
  float least = -kInfinity;
  if (count < static_cast<int64_t>(peaks.size())) {
    std::vector<float>& ranked = scratch.peaks_copy;
    ranked = peaks;
    std::nth_element(ranked.begin(), ranked.begin() + (count - 1), ranked.end(), std::greater<>());
    least = ranked[static_cast<size_t>(count - 1)];
  }
  std::vector<int32_t>& picked = scratch.candidates;
  picked.clear();
  for (size_t block = 0; block < peaks.size(); ++block) {
    if (peaks[block] < least) continue;
    const int64_t begin = static_cast<int64_t>(block) * kPeakBlock;
    for (int64_t i = begin; i < std::min(size, begin + kPeakBlock); ++i) {
      if (row[i] >= least) picked.push_back(static_cast<int32_t>(i));
    }
  }
  if (static_cast<int64_t>(picked.size()) <= count) return;
  const auto is_larger = [row](int32_t a, int32_t b) {
    return row[a] > row[b] || (row[a] == row[b] && a < b);
  };
  std::nth_element(picked.begin(), picked.begin() + count, picked.end(), is_larger);
  picked.resize(static_cast<size_t>(count));
}

void ComputeCoarseLogits(const ForwardPass& pass) {
  const CoarseHead& head = *pass.weights.coarse_head;
  ForwardScratch::State& scratch = pass.scratch;
  const std::vector<float>& bias = pass.weights.output.bias;
  for (int32_t row = 0; row < scratch.num_rows; ++row) {
    float* hidden = scratch.hidden_row(row);
    kernels::RmsNorm(hidden, pass.weights.output_norm.data(), pass.weights.config.rms_epsilon,
                     scratch.embedding_length, hidden);
    head.coarse_rows.Quantize({hidden, static_cast<size_t>(scratch.embedding_length)},
                              scratch.coarse.input);
    float* logits = scratch.logits_row(row);
    head.coarse_rows.Multiply(scratch.coarse.input, logits, pass.pool);
    if (!bias.empty()) kernels::Add(logits, bias.data(), scratch.vocab_size);
    PickLargest({logits, static_cast<size_t>(scratch.vocab_size)}, head.num_candidates,
                scratch.coarse);
    ComputeFinePass(pass, head, row);
  }
}

}  // namespace tahmin
