// What a decoding step costs on a machine that need not be at hand: the virtual clock's rates
// (simulation.h). A small JSON file, all times in milliseconds:
//   {"note": where the figures are from,
//    "rows": [1, 2, 4, ...], "verify_ms": [...],   T(n): a pass of the target over n rows
//    "draft_pass_ms": x,   one more token of the draft model
//    "read_ms": x,         a prompt token that the draft model reads
//    "prefill_ms": x,      the same of the target, which tells `auto` what reading may cost
//    "overhead_ms": x}     what a step costs beside the passes of models
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "control/cost_model.h"

namespace tahmin::bench {

struct MachineCosts {
  std::string name = {}, note = {};
  std::vector<RowCost> verify;  // ascending rows, the first one 1
  double draft_pass_ms = 0, read_ms = 0, prefill_ms = 0, overhead_ms = 0;
};

// INVALID_ARGUMENT: something is missing or out of order; the message names it.
absl::StatusOr<MachineCosts> ParseMachine(std::string_view file);

// A name stands for a file of bench/control/machines (avx2_zen3); anything with a dot or a slash is
// a path. NOT_FOUND, if it cannot be read.
absl::StatusOr<MachineCosts> ReadMachine(const std::string& name_or_path);

}  // namespace tahmin::bench
