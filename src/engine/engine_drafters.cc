// The engine's drafters: which ones a request gets, and the controller that steers them.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "draft/drafter_list.h"
#include "engine/drafter_needs.h"
#include "engine/engine_state.h"
#include "kernels/isa.h"

namespace tahmin {
namespace {

int32_t WidthOf(const DrafterRow& row, const DraftOptions& options) {
  return options.draft_width > 0 ? options.draft_width : row.default_width;
}

bool IsSameDraft(const DraftOptions& a, const DraftOptions& b) {
  return a.drafter == b.drafter && a.draft_width == b.draft_width &&
         a.lookup_min_ngram == b.lookup_min_ngram && a.lookup_max_ngram == b.lookup_max_ngram &&
         a.lookahead_window == b.lookahead_window && a.lookahead_ngram == b.lookahead_ngram &&
         a.lookahead_guesses == b.lookahead_guesses;
}

// "AMD EPYC", from /proc/cpuinfo; empty where there is none.
std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "";
}

constexpr size_t kMostAdaptive = 8;  // controllers that are kept

}  // namespace

bool IsAdaptive(const DraftOptions& draft) { return draft.is_adaptive || draft.drafter == kAuto; }

absl::Status Engine::State::LoadStores() {
  if (!options.datastore_path.empty()) {
    TAHMIN_ASSIGN_OR_RETURN(datastore, Datastore::Open(options.datastore_path));
    TAHMIN_RETURN_IF_ERROR(datastore->CheckTokenizer(tokenizer->Fingerprint()));
  }
  if (options.suffix_store_bytes == 0) return absl::OkStatus();
  const SuffixStoreOptions wanted{.max_bytes = options.suffix_store_bytes,
                                  .fingerprint = tokenizer->Fingerprint(),
                                  .vocab_size = valid_vocab_size};
  if (!options.suffix_store_path.empty()) {
    absl::StatusOr<std::unique_ptr<SuffixStore>> loaded =
        SuffixStore::Load(options.suffix_store_path, wanted);
    if (!absl::IsNotFound(loaded.status())) {
      TAHMIN_ASSIGN_OR_RETURN(suffix_store, std::move(loaded));
      return absl::OkStatus();
    }
  }
  TAHMIN_ASSIGN_OR_RETURN(suffix_store, SuffixStore::Create(wanted));
  return absl::OkStatus();
}

absl::Status Engine::SaveSuffixStore() const {
  const State& state = *state_;
  if (state.suffix_store == nullptr || state.options.suffix_store_path.empty()) {
    return absl::FailedPreconditionError(
        "no suffix store to save: suffix_store_bytes and suffix_store_path say which");
  }
  return state.suffix_store->Save(state.options.suffix_store_path);
}

absl::Status Engine::State::EnsureDrafters(const GenerationRequest& request,
                                           const SamplingOptions& sampling) {
  const DraftOptions& wanted = request.draft;
  TAHMIN_ASSIGN_OR_RETURN(
      const std::vector<const DrafterRow*> rows,
      ParseDrafterList(wanted.drafter, {.has_draft_model = draft_model != nullptr,
                                        .has_datastore = datastore != nullptr}));
  if (request.options.acceptance == AcceptanceRuleKind::kRejection) {
    if (rows.size() > 1) {
      return absl::InvalidArgumentError(
          fmt::format("the rejection rule takes one drafter; found '{}'", wanted.drafter));
    }
    if (IsAdaptive(wanted)) {
      return absl::InvalidArgumentError(
          "with the rejection rule the text depends on how much is drafted, so the clock must not "
          "decide it: is_adaptive is set");
    }
  }
  if (IsAdaptive(wanted) && !CanAdapt(rows)) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' cannot adapt how much it drafts", wanted.drafter));
  }
  // A cold request gets cold drafters, so that their time is honestly measured.
  const bool can_go_on = request.reuse_cache && !in_use.drafters.empty() &&
                         IsSameDraft(wanted, in_use.options) &&
                         request.script_tokens == in_use.script;
  if (!can_go_on) {
    in_use.Clear();
    DrafterContext context;
    context.options = wanted;
    context.sampling = sampling;
    context.script_tokens = request.script_tokens;
    context.draft_model = {
        .model = draft_model.get(),
        .pool = pool.get(),
        .kv_type = options.draft_kv_type,
        .context_tokens = DraftContextTokens(),
        .prefill_chunk = prefill_chunk,
        .max_width = std::max(1, wanted.draft_width),
        .valid_vocab_size = draft_model != nullptr ? draft_valid_vocab_size : valid_vocab_size};
    context.datastore = datastore.get();
    context.suffix_store = suffix_store.get();
    DraftersInUse made;
    made.rows = rows;
    made.options = wanted;
    made.script = request.script_tokens;
    for (const DrafterRow* row : rows) {
      TAHMIN_ASSIGN_OR_RETURN(std::unique_ptr<Drafter> drafter, row->make(context));
      TAHMIN_RETURN_IF_ERROR(CheckDrafterNeeds(*drafter));
      made.drafters.push_back(std::move(drafter));
    }
    in_use = std::move(made);
    for (const AdaptiveInUse& each : adaptive) each.controller->DraftersAreNew();
  }
  in_use.fixed.reset();
  if (IsAdaptive(wanted)) return EnsureAdaptive(rows, wanted);
  std::vector<int32_t> widths;
  for (const DrafterRow* row : rows) widths.push_back(WidthOf(*row, wanted));
  in_use.fixed = MakeFixedController(wanted.draft_max, std::move(widths));
  return absl::OkStatus();
}

Controller* Engine::State::ControllerInUse() const {
  return in_use.fixed != nullptr ? in_use.fixed.get() : adaptive.front().controller.get();
}

absl::Status Engine::State::EnsureAdaptive(const std::vector<const DrafterRow*>& rows,
                                           const DraftOptions& draft) {
  const auto found = std::find_if(adaptive.begin(), adaptive.end(),
                                  [&](const auto& each) { return each.IsFor(rows, draft); });
  if (found != adaptive.end()) {
    if (found != adaptive.begin()) {
      found->controller->DraftersAreNew();  // what they have read since, it was not told
      std::rotate(adaptive.begin(), found, found + 1);
    }
    return absl::OkStatus();
  }
  LearnStepCosts();
  if (!step_costs && !options.step_costs_path.empty()) {
    absl::StatusOr<StepCosts> kept = ReadStepCosts(options.step_costs_path, StepCostsKey());
    if (kept.ok()) step_costs = *std::move(kept);
  }
  if (!step_costs) {
    TAHMIN_ASSIGN_OR_RETURN(step_costs,
                            MeasureStepCosts(*model, draft_model.get(), options.kv_type, *pool));
  }
  AdaptiveOptions wanted{
      .drafters = {}, .verify_cost = step_costs->verify, .max_tokens = draft.draft_max};
  for (const DrafterRow* row : rows) {
    wanted.drafters.push_back({.width = WidthOf(*row, draft),
                               .costs_per_token = row->needs_draft_model,
                               .pass_ms = row->needs_draft_model ? step_costs->draft_pass_ms : 0});
  }
  if (adaptive.size() == kMostAdaptive) adaptive.pop_back();
  adaptive.insert(adaptive.begin(), {.controller = MakeAdaptiveController(wanted),
                                     .rows = rows,
                                     .draft_max = draft.draft_max,
                                     .draft_width = draft.draft_width});
  return absl::OkStatus();
}

absl::Status Engine::State::PrepareAdaptive() {
  if (!IsAdaptive(options.draft)) return absl::OkStatus();
  TAHMIN_ASSIGN_OR_RETURN(
      const std::vector<const DrafterRow*> rows,
      ParseDrafterList(options.draft.drafter, {.has_draft_model = draft_model != nullptr,
                                               .has_datastore = datastore != nullptr}));
  return EnsureAdaptive(rows, options.draft);
}

void Engine::State::LearnStepCosts() {
  if (adaptive.empty()) return;
  step_costs->verify = adaptive.front().controller->VerifyCosts();
  for (const AdaptiveInUse& each : adaptive) {
    const double pass_ms = each.controller->PassMs();  // 0 with drafters that cost nothing
    if (pass_ms == 0) continue;
    step_costs->draft_pass_ms = pass_ms;
    break;
  }
}

std::string Engine::State::StepCostsKey() const {
  const auto name_of = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(options.model_path, error);
  return fmt::format("{} ({} bytes), draft {}, {}, {} threads, {}", name_of(options.model_path),
                     error ? 0 : bytes, name_of(options.draft_model_path),
                     kernels::IsaName(kernels::ActiveIsa()), pool->num_threads(), ProcessorName());
}

absl::Status Engine::State::SaveStepCosts() {
  if (adaptive.empty() || options.step_costs_path.empty()) return absl::OkStatus();
  LearnStepCosts();
  return WriteStepCosts(options.step_costs_path, StepCostsKey(), *step_costs);
}

}  // namespace tahmin
