#include "measure/identity_audit.h"

#include <algorithm>

#include "base/status_macros.h"
#include "draft/drafter_list.h"

namespace tahmin {

namespace {

constexpr size_t kMaxListedDifferences = 100;

std::vector<std::string> DraftersOf(const Engine& engine, const AuditGrid& grid) {
  if (!grid.drafters.empty()) return grid.drafters;
  std::vector<std::string> names;
  for (const DrafterRow& row : AllDrafters()) {
    const bool is_possible = row.name != "none" && row.name != "script" &&
                             (!row.needs_draft_model || engine.draft_model() != nullptr) &&
                             (!row.needs_datastore || engine.has_datastore());
    if (is_possible) names.emplace_back(row.name);
  }
  names.emplace_back(kAuto);
  return names;
}

// One way of decoding whose ids must equal the reference's.
struct Setting {
  std::string drafter;
  int32_t draft_max;
  int32_t threads;
  int32_t prefill_chunk;      // 0: the engine's own
  bool is_first_of_its_kind;  // of its drafter and thread count
};

std::vector<Setting> SettingsOf(const Engine& engine, const AuditGrid& grid) {
  std::vector<Setting> settings;
  for (int32_t threads : grid.threads) {
    if (threads != grid.threads[0]) settings.push_back({"none", 0, threads, 0, true});
    for (const std::string& drafter : DraftersOf(engine, grid)) {
      for (int32_t draft_max : grid.draft_max) {
        settings.push_back({drafter, draft_max, threads, 0, draft_max == grid.draft_max[0]});
      }
    }
  }
  for (int32_t chunk : grid.prefill_chunks) {
    settings.push_back({"none", 0, grid.threads[0], chunk, true});
  }
  return settings;
}

class Audit {
 public:
  Audit(Engine& engine, const AuditGrid& grid)
      : engine_(engine), grid_(grid), settings_(SettingsOf(engine, grid)) {}

  int64_t SettingsCount() const { return static_cast<int64_t>(settings_.size()); }

  // All settings for one prompt, temperature and seed. The prompt's first draw runs the reference
  // and the first setting of each kind cold; everything else keeps the prompt's keys and values, so
  // that an audit takes half the time and sees what a rollback leaves behind.
  absl::Status Compare(const AuditPrompt& prompt, double temperature, int32_t seed,
                       bool is_first_draw) {
    engine_.SetNumThreads(grid_.threads[0]);
    GenerationRequest request;
    request.keep_output = false;
    request.prompt_tokens = prompt.tokens;
    request.options.max_tokens = grid_.max_tokens;
    request.options.sampling.temperature = static_cast<float>(temperature);
    request.options.sampling.seed = seed;
    request.reuse_cache = !is_first_draw;
    TAHMIN_ASSIGN_OR_RETURN(const GenerationResult plain, engine_.Generate(request));
    std::vector<int32_t> plain_run = prompt.tokens;
    plain_run.insert(plain_run.end(), plain.tokens.begin(), plain.tokens.end());
    const int32_t own_chunk = engine_.prefill_chunk();
    for (const Setting& setting : settings_) {
      if (engine_.num_threads() != setting.threads) engine_.SetNumThreads(setting.threads);
      if (setting.prefill_chunk > 0) engine_.SetPrefillChunk(setting.prefill_chunk);
      request.reuse_cache =
          setting.prefill_chunk == 0 && !(is_first_draw && setting.is_first_of_its_kind);
      request.script_tokens = setting.drafter == "replay" ? plain_run : std::vector<int32_t>();
      request.draft.drafter = setting.drafter;
      request.draft.draft_max = std::max(1, setting.draft_max);
      auto result = engine_.Generate(request);
      if (setting.prefill_chunk > 0) engine_.SetPrefillChunk(own_chunk);
      if (!result.ok()) return result.status();
      Record(prompt, temperature, seed, setting, plain, *result);
    }
    return absl::OkStatus();
  }

  const AuditReport& report() const { return report_; }
  AuditReport TakeReport() { return std::move(report_); }

 private:
  AuditRow& RowOf(const Setting& setting, double temperature) {
    const std::string name = setting.prefill_chunk > 0
                                 ? "chunk " + std::to_string(setting.prefill_chunk)
                                 : setting.drafter;
    for (AuditRow& row : report_.rows) {
      if (row.drafter == name && row.draft_max == setting.draft_max &&
          row.threads == setting.threads && row.temperature == temperature) {
        return row;
      }
    }
    report_.rows.push_back({.drafter = name,
                            .draft_max = setting.draft_max,
                            .temperature = temperature,
                            .threads = setting.threads});
    return report_.rows.back();
  }

  void Record(const AuditPrompt& prompt, double temperature, int32_t seed, const Setting& setting,
              const GenerationResult& plain, const GenerationResult& speculative) {
    AuditRow& row = RowOf(setting, temperature);
    ++row.runs;
    ++report_.runs;
    row.drafted += speculative.stats.drafted;
    row.accepted += speculative.stats.accepted;
    const bool is_identical = plain.tokens == speculative.tokens &&
                              plain.text == speculative.text &&
                              plain.finish_reason == speculative.finish_reason;
    if (is_identical) return;
    ++row.differences;
    ++report_.num_differences;
    if (report_.differences.size() >= kMaxListedDifferences) return;
    const auto [a, b] = std::mismatch(plain.tokens.begin(), plain.tokens.end(),
                                      speculative.tokens.begin(), speculative.tokens.end());
    report_.differences.push_back({.prompt_id = prompt.id,
                                   .drafter = row.drafter,
                                   .draft_max = setting.draft_max,
                                   .temperature = temperature,
                                   .threads = setting.threads,
                                   .seed = seed,
                                   .position = a - plain.tokens.begin(),
                                   .plain_token = a == plain.tokens.end() ? -1 : *a,
                                   .speculative_token = b == speculative.tokens.end() ? -1 : *b});
  }

  Engine& engine_;
  const AuditGrid& grid_;
  const std::vector<Setting> settings_;
  AuditReport report_;
};

}  // namespace

absl::StatusOr<AuditReport> RunIdentityAudit(
    Engine& engine, const std::vector<AuditPrompt>& prompts, const AuditGrid& grid,
    const std::function<void(const AuditProgress&)>& on_progress) {
  Audit audit(engine, grid);
  std::vector<std::pair<double, int32_t>> draws;  // (temperature, seed)
  for (double temperature : grid.temperatures) {
    const size_t num_seeds = temperature > 0 ? grid.seeds.size() : 1;
    for (size_t i = 0; i < num_seeds; ++i) draws.emplace_back(temperature, grid.seeds[i]);
  }
  AuditProgress progress{.total = static_cast<int64_t>(prompts.size() * draws.size())};
  for (const AuditPrompt& prompt : prompts) {
    const int64_t runs = audit.report().runs, differences = audit.report().num_differences;
    progress.prompt_id = prompt.id;
    for (size_t i = 0; i < draws.size(); ++i) {
      TAHMIN_RETURN_IF_ERROR(audit.Compare(prompt, draws[i].first, draws[i].second, i == 0));
      ++progress.done;
      progress.is_prompt_done = i + 1 == draws.size();
      progress.runs = audit.report().runs - runs;
      progress.differences = audit.report().num_differences - differences;
      on_progress(progress);
    }
  }
  return audit.TakeReport();
}

}  // namespace tahmin
