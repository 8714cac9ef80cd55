// Runs a policy over recorded texts with a virtual clock: the engine's own drafters, controller,
// DraftPhase and acceptance rule (keyed, temperature 0) in the order of engine/decode_step.cc, but
// with a record in place of the models (recorded_target.h, replayed_draft.h) and the rates of a
// machine description in place of the time. So policies are compared without noise, or with just as
// much as is asked for, in about a second, also for machines that are not at hand.
//
// A step takes T(1 + nodes), the draft model's work, max(0, tokens read - 2) * read_ms + passes *
// draft_pass_ms, and overhead_ms; drafters without a model take no time of their own. What the
// controller is told varies as a watch on a shared machine does: each pass by itself, and all of
// them in spells. What is counted is the time of a quiet machine. `auto` starts from the machine's
// own T(n), as it does after its first requests, and goes on learning from text to text; drafters
// start anew with each, as in `tahmin bench`.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/control/machine_costs.h"
#include "bench/control/policy_settings.h"
#include "bench/control/text_record.h"

namespace tahmin::bench {

struct SimulationOptions {
  int32_t max_tokens = 0;  // of a text, at least 2; 0: as many as were recorded
  double noise = 0.05;     // standard deviation of the logarithm of a pass's time
  double busy = 0.2;       // share of the steps that fall into spells in which all takes longer
  uint64_t seed = 0;       // of both; each setting has the same
};

struct SimulatedText {
  std::string id, group;
  int32_t prompt_tokens = 0, output_tokens = 0;
  int32_t num_steps = 0;    // each writes output tokens, but not the first one
  double ms = 0;            // from the first token to the last, on a quiet machine
  double plain_ms = 0;      // the same of plain decoding
  double draft_ms = 0;      // of ms: the draft model's
  int32_t draft_begin = 0;  // output tokens when the draft model was first asked; 0: never

  double Speedup() const { return plain_ms / ms; }
};

// Nodes that were submitted with about the same chance of being emitted, as the controller saw it.
struct CalibrationBin {
  int64_t num_nodes = 0, num_accepted = 0;
  double survival_sum = 0;
};

struct DrafterCalibration {
  std::string drafter;
  std::array<CalibrationBin, 10> bins;  // by survival, of equal width
};

struct SimulatedSetting {
  std::string name;
  std::vector<SimulatedText> texts = {};
  std::vector<DrafterCalibration> calibration = {};  // in the order of calling
};

// INVALID_ARGUMENT: max_tokens is 1, or a drafter's nodes are probes (lookahead), whose rows no
// record has.
absl::StatusOr<SimulatedSetting> Simulate(const RecordedTexts& record, const MachineCosts& machine,
                                          const PolicySetting& setting,
                                          const SimulationOptions& options);

}  // namespace tahmin::bench
