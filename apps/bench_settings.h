// The flags of `tahmin bench` and the drafters that they ask for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/conversation.h"
#include "apps/model_options.h"
#include "measure/interleaved_bench.h"

namespace CLI {
class App;
}

namespace tahmin::cli {

struct BenchFlags {
  const CLI::App* command = nullptr;
  ModelFlags model;
  ChatFlags chat;
  std::string prompts_path, drafters, groups, report_path, accept = "keyed";
  int32_t rounds = 3, per_group = 0, limit = 0, max_tokens = 128;
  std::optional<int32_t> draft_max;  // unset: as much as pays
  float temperature = 0.0f;
  bool use_json = false;

  void AddTo(CLI::App& app_command);
};

absl::StatusOr<std::vector<BenchSetting>> MakeBenchSettings(const BenchFlags& flags);

// The engine's options for these settings: room for the longest draft, the draft model only where
// a setting uses it; options without effect are noted.
absl::StatusOr<EngineOptions> MakeBenchEngineOptions(const BenchFlags& flags,
                                                     const std::vector<BenchSetting>& settings);

}  // namespace tahmin::cli
