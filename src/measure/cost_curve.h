// T(n): what one full Forward pass of n rows costs, measured beside the machine's own limits.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "model/model.h"

namespace tahmin {

struct CurvePoint {
  int32_t rows = 0;
  double ms = 0;  // median
  double min_ms = 0, max_ms = 0;
  double extra_rows_fraction = 0;  // residual rows / rows, over all matrices of the pass
  PassStageMs stage_ms = {};       // medians
};

struct CostCurve {
  std::vector<CurvePoint> points;
  double streaming_bytes_per_second = 0;  // median of the best prefetch distance
  int64_t streaming_prefetch_distance = 0;
  double int8_macs_per_second = 0;  // medians
  double fp32_macs_per_second = 0;
  int32_t rounds = 0;
  double draft_ms = 0;  // median of one row of the draft model; 0: none
};

struct CostCurveOptions {
  std::vector<int32_t> rows = {1, 2, 4, 8, 16};
  int64_t context = 64;  // committed tokens before the measured rows
  int32_t rounds = 9;
  KvType kv_type = KvType::kF16;
  bool with_limits = true;  // false: the machine's own limits stay 0, which saves most of the time
  const Model* draft_model = nullptr;  // its pass of one row is measured too, in turn with the rest
  KvType draft_kv_type = KvType::kF16;
};

// text_tokens: real text, used in order and from the start again when it is too short. Each round
// runs every row count once (logits for all rows, then rolled back) and every limit once, so that
// drift hits all alike.
absl::StatusOr<CostCurve> MeasureCostCurve(
    const Model& model, const std::vector<int32_t>& text_tokens, const CostCurveOptions& options,
    ThreadPool& pool, const std::function<void(int64_t done, int64_t total)>& progress);

// Own sample of code and prose to measure with.
std::string_view CostCurveText();

}  // namespace tahmin
