#include "engine/step_costs.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/file_replacement.h"
#include "base/status_macros.h"
#include "base/stopwatch.h"
#include "kv/kv_cache.h"

namespace tahmin {
namespace {

constexpr size_t kMostFileBytes = 1 << 20;
// T(5) stands for the slope; between and beyond, the first steps correct it.
constexpr int32_t kSlopeRows = 5;

constexpr int kDeepest = 3;  // the file's objects, lists and numbers

// What is deeper is dropped: the library copies and writes by recursion.
bool IsShallow(int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
  return depth <= kDeepest;
}

nlohmann::json ReadObject(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return nlohmann::json::object();
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostFileBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  nlohmann::json object = nlohmann::json::parse(text, IsShallow, /*allow_exceptions=*/false);
  if (!object.is_object()) object = nlohmann::json::object();
  return object;
}

// A pass of no model takes an hour or a nanosecond.
bool IsTime(const nlohmann::json& value) {
  return value.is_number() && value.get<double>() >= 1e-6 && value.get<double>() <= 3.6e6;
}

bool IsNoTime(const nlohmann::json& value) { return value.is_number() && value.get<double>() == 0; }

}  // namespace

absl::StatusOr<double> MeasurePassMs(const Model& model, int32_t rows, KvType kv_type,
                                     ThreadPool& pool) {
  KvCache cache(model.MakeKvShape(kv_type));
  TAHMIN_ASSIGN_OR_RETURN(const int32_t sequence, cache.AddSequence(rows));
  TAHMIN_ASSIGN_OR_RETURN(const auto scratch, model.CreateScratch(rows, rows, pool));
  std::vector<int32_t> tokens(rows);
  // Any ids do; different ones, so that their embeddings are read from different places.
  for (int32_t i = 0; i < rows; ++i) tokens[i] = (i * 97 + 13) % model.config().vocab_size;
  double ms = 0;
  for (int32_t round = 0; round < 2; ++round) {
    TAHMIN_RETURN_IF_ERROR(cache.Reserve(sequence, rows));
    TokenBatch batch;
    batch.AppendChain(sequence, tokens.data(), rows, true);
    const Stopwatch watch;
    model.Forward(batch, cache, *scratch, pool);
    ms = watch.ElapsedMs();
    cache.Rollback(sequence);
  }
  return ms;
}

absl::StatusOr<StepCosts> MeasureStepCosts(const Model& model, const Model* draft_model,
                                           KvType kv_type, ThreadPool& pool) {
  StepCosts costs;
  for (int32_t rows : {1, kSlopeRows}) {
    TAHMIN_ASSIGN_OR_RETURN(const double ms, MeasurePassMs(model, rows, kv_type, pool));
    costs.verify.push_back({rows, ms});
  }
  if (draft_model != nullptr) {
    TAHMIN_ASSIGN_OR_RETURN(costs.draft_pass_ms, MeasurePassMs(*draft_model, 1, kv_type, pool));
  }
  return costs;
}

absl::StatusOr<StepCosts> ReadStepCosts(const std::string& path, const std::string& key) {
  const nlohmann::json object = ReadObject(path);
  const auto unknown = absl::NotFoundError(fmt::format("{} holds no usable costs", path));
  if (!object.contains(key) || !object[key].is_object()) return unknown;
  const nlohmann::json& entry = object[key];
  if (!entry.contains("rows") || !entry.contains("ms") || !entry.contains("draft_pass_ms")) {
    return unknown;
  }
  const nlohmann::json &rows = entry["rows"], &ms = entry["ms"];
  if (!rows.is_array() || !ms.is_array() || rows.empty() || rows.size() != ms.size()) {
    return unknown;
  }
  const nlohmann::json& draft_pass_ms = entry["draft_pass_ms"];
  if (!IsTime(draft_pass_ms) && !IsNoTime(draft_pass_ms)) return unknown;
  StepCosts costs{.verify = {}, .draft_pass_ms = draft_pass_ms.get<double>()};
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].is_number_integer() || !IsTime(ms[i])) return unknown;
    // Fewer rows never cost more, and a row more at most one pass more.
    const double most_ms = ms[0].get<double>() * static_cast<double>(VerifyCost::kMaxRows);
    const double least_ms = i == 0 ? 0 : ms[i - 1].get<double>();
    if (ms[i].get<double>() < least_ms || ms[i].get<double>() > most_ms) return unknown;
    const int64_t count = rows[i].get<int64_t>();
    const int64_t least = i == 0 ? 1 : costs.verify.back().rows + 1;
    if (count < least || count > VerifyCost::kMaxRows || (i == 0 && count != 1)) return unknown;
    costs.verify.push_back({static_cast<int32_t>(count), ms[i].get<double>()});
  }
  return costs;
}

absl::Status WriteStepCosts(const std::string& path, const std::string& key,
                            const StepCosts& costs) {
  nlohmann::json object = ReadObject(path);
  nlohmann::json rows = nlohmann::json::array(), ms = nlohmann::json::array();
  for (const RowCost& point : costs.verify) {
    rows.push_back(point.rows);
    ms.push_back(point.ms);
  }
  object[key] = {{"rows", rows}, {"ms", ms}, {"draft_pass_ms", costs.draft_pass_ms}};
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  const std::string text =
      object.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  return ReplaceFile(path, {reinterpret_cast<const uint8_t*>(text.data()), text.size()},
                     FileReaders::kEveryone);
}

}  // namespace tahmin
