// The flags of `tahmin audit`, and the prompts and settings that they ask for.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/conversation.h"
#include "apps/model_options.h"
#include "measure/identity_audit.h"
#include "measure/prompt_file.h"

namespace CLI {
class App;
}

namespace tahmin::cli {

struct AuditFlags {
  const CLI::App* command = nullptr;
  ModelFlags model;
  ChatFlags chat;
  std::string prompt, prompts_path, drafters, groups;
  std::string draft_max = "1,3,4,8", threads_list, temperatures = "0,0.8", seeds = "1",
              prefill_chunks;
  int32_t max_tokens = 64, per_group = 0, limit = 0;
  bool use_json = false, is_raw = false;

  void AddTo(CLI::App& app_command);
  absl::Status Validate() const;  // what needs no file
};

absl::StatusOr<std::vector<PromptEntry>> CollectAuditPrompts(const AuditFlags& flags);

// No thread counts unless they were given: -t may leave theirs to the machine.
absl::StatusOr<AuditGrid> MakeAuditGrid(const AuditFlags& flags);

// The loaded draft model takes part in these drafters.
bool UsesDraftModel(const AuditGrid& grid, const EngineOptions& engine);

}  // namespace tahmin::cli
