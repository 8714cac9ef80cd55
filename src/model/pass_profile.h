// Where the time of one Forward pass went, by stage. Stages follow one another on the thread that
// drives the pass, so the clock is read once where one ends and the next begins: some hundred times
// a pass, far below a thousandth of its time.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <string_view>

namespace tahmin {

enum class PassStage {
  kEmbedding,      // rows of the embedding, places, angles of rope
  kInputs,         // of every matmul: norms, SiLU times up, quantised
  kQueryKeyValue,  // matmul
  kRopeAndStore,   // rope, keys and values into the cache
  kAttention,
  kAttentionOutput,  // matmul
  kGateAndUp,        // matmuls
  kDown,             // matmul
  kResidualAdds,
  kHead,  // the output head
};
constexpr size_t kNumPassStages = 10;

// "embedding", "inputs", "query_key_value", ...
std::string_view PassStageName(PassStage stage);

using PassStageMs = std::array<double, kNumPassStages>;  // by PassStage

class PassProfile {
 public:
  void Start() {
    ms_ = {};
    lap_began_ = std::chrono::steady_clock::now();
  }
  // What ran since Start or the last Lap belongs to `stage`.
  void Lap(PassStage stage) {
    const auto now = std::chrono::steady_clock::now();
    ms_[static_cast<size_t>(stage)] +=
        std::chrono::duration<double, std::milli>(now - lap_began_).count();
    lap_began_ = now;
  }
  const PassStageMs& ms() const { return ms_; }

 private:
  PassStageMs ms_ = {};
  std::chrono::steady_clock::time_point lap_began_;
};

}  // namespace tahmin
