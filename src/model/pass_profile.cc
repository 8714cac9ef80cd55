#include "model/pass_profile.h"

namespace tahmin {

std::string_view PassStageName(PassStage stage) {
  static constexpr std::array<std::string_view, kNumPassStages> kNames = {
      "embedding",       "inputs",
      "query_key_value", "rope_and_store",
      "attention",       "attention_output",
      "gate_and_up",     "down",
      "residual_adds",   "head"};
  return kNames[static_cast<size_t>(stage)];
}

}  // namespace tahmin
