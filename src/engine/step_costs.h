// What the controller of `auto` knows about costs before the first step: T(n) and a draft pass,
// measured once with the weights in memory (well under half a second), or read from the file that
// an earlier run left.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "control/cost_model.h"
#include "model/model.h"

namespace tahmin {

struct StepCosts {
  std::vector<RowCost> verify;  // ascending rows, the first one 1
  double draft_pass_ms = 0;     // 0: no draft model
};

// One pass of `rows` rows over an empty context, in ms; the second of two, the first one warms up.
absl::StatusOr<double> MeasurePassMs(const Model& model, int32_t rows, KvType kv_type,
                                     ThreadPool& pool);

// draft_model: null for none. Takes about five plain steps.
absl::StatusOr<StepCosts> MeasureStepCosts(const Model& model, const Model* draft_model,
                                           KvType kv_type, ThreadPool& pool);

// The file holds one JSON object: key -> {"rows": [...], "ms": [...], "draft_pass_ms": x}. It is a
// cache: what cannot be read, or makes no sense, is NOT_FOUND and gets measured again.
absl::StatusOr<StepCosts> ReadStepCosts(const std::string& path, const std::string& key);
// Keeps the other keys; written beside it and renamed.
absl::Status WriteStepCosts(const std::string& path, const std::string& key,
                            const StepCosts& costs);

}  // namespace tahmin
