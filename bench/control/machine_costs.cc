#include "bench/control/machine_costs.h"

#include <cmath>
#include <utility>

#include "base/file_contents.h"
#include "base/status_macros.h"
#include "bench/control/json_lines.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace tahmin::bench {
namespace {

using nlohmann::json;

absl::Status Expected(std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("expected {}", what));
}

absl::StatusOr<double> TimeOf(const json& object, const char* key) {
  if (!object.contains(key) || !object[key].is_number() || object[key].get<double>() < 0) {
    return Expected(fmt::format("\"{}\": milliseconds, at least 0", key));
  }
  return object[key].get<double>();
}

absl::StatusOr<std::vector<RowCost>> VerifyCosts(const json& object) {
  const absl::Status error =
      Expected("\"rows\", ascending from 1, and as many \"verify_ms\", above 0 and never falling");
  if (!object.contains("rows") || !object.contains("verify_ms")) return error;
  const json &rows = object["rows"], &times = object["verify_ms"];
  if (!rows.is_array() || !times.is_array() || rows.empty() || rows.size() != times.size()) {
    return error;
  }
  std::vector<RowCost> costs;
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool is_count = rows[i].is_number_integer() && rows[i].get<int64_t>() >= 1 &&
                          rows[i].get<int64_t>() <= 1 << 16;
    if (!is_count || !times[i].is_number()) return error;
    const RowCost cost{.rows = rows[i], .ms = times[i]};
    const bool is_in_order = costs.empty()
                                 ? cost.rows == 1 && cost.ms > 0
                                 : cost.rows > costs.back().rows && cost.ms >= costs.back().ms;
    if (!is_in_order) return error;
    costs.push_back(cost);
  }
  return costs;
}

}  // namespace

absl::StatusOr<MachineCosts> ParseMachine(std::string_view file) {
  const json object = json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return Expected("a JSON object");
  MachineCosts machine;
  if (object.contains("note") && object["note"].is_string()) machine.note = object["note"];
  TAHMIN_ASSIGN_OR_RETURN(machine.verify, VerifyCosts(object));
  TAHMIN_ASSIGN_OR_RETURN(machine.draft_pass_ms, TimeOf(object, "draft_pass_ms"));
  TAHMIN_ASSIGN_OR_RETURN(machine.read_ms, TimeOf(object, "read_ms"));
  TAHMIN_ASSIGN_OR_RETURN(machine.prefill_ms, TimeOf(object, "prefill_ms"));
  TAHMIN_ASSIGN_OR_RETURN(machine.overhead_ms, TimeOf(object, "overhead_ms"));
  return machine;
}

absl::StatusOr<MachineCosts> ReadMachine(const std::string& name_or_path) {
  const bool is_path = name_or_path.find_first_of("./") != std::string::npos;
  const std::string path =
      is_path ? name_or_path : fmt::format("{}/{}.json", TAHMIN_MACHINES_DIR, name_or_path);
  TAHMIN_ASSIGN_OR_RETURN(const std::string file, ReadWholeFile(path));
  absl::StatusOr<MachineCosts> machine = ParseMachine(file);
  if (!machine.ok()) return WithPath(machine.status(), path);
  machine->name = name_or_path;
  return machine;
}

}  // namespace tahmin::bench
