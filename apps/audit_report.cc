#include "apps/audit_report.h"

#include <cstdio>
#include <map>
#include <string>

#include "fmt/format.h"

namespace tahmin::cli {

nlohmann::json AuditReportToJson(const AuditReport& report) {
  nlohmann::json rows = nlohmann::json::array(), differences = nlohmann::json::array();
  for (const AuditRow& row : report.rows) {
    rows.push_back({{"drafter", row.drafter},
                    {"draft_max", row.draft_max},
                    {"temperature", row.temperature},
                    {"threads", row.threads},
                    {"runs", row.runs},
                    {"differences", row.differences},
                    {"drafted", row.drafted},
                    {"accepted", row.accepted}});
  }
  for (const AuditDifference& difference : report.differences) {
    differences.push_back({{"prompt", difference.prompt_id},
                           {"drafter", difference.drafter},
                           {"draft_max", difference.draft_max},
                           {"temperature", difference.temperature},
                           {"threads", difference.threads},
                           {"seed", difference.seed},
                           {"position", difference.position},
                           {"plain_id", difference.plain_token},
                           {"speculative_id", difference.speculative_token}});
  }
  return {{"runs", report.runs},
          {"differences", report.num_differences},
          {"rows", rows},
          {"first_differences", differences}};
}

void PrintAuditReport(const AuditReport& report) {
  fmt::print("{:<10} {:>9} {:>11} {:>7} {:>6} {:>11} {:>10}\n", "drafter", "draft-max",
             "temperature", "threads", "runs", "differences", "accepted");
  for (const AuditRow& row : report.rows) {
    const std::string accepted =
        row.drafted == 0 ? "-" : fmt::format("{:.1f} %", 100.0 * row.accepted / row.drafted);
    fmt::print("{:<10} {:>9} {:>11} {:>7} {:>6} {:>11} {:>10}\n", row.drafter, row.draft_max,
               row.temperature, row.threads, row.runs, row.differences, accepted);
  }
  for (const AuditDifference& difference : report.differences) {
    fmt::print(
        "DIFFERENT: prompt {}, {} K={} temperature {} threads {} seed {}: at output position {} "
        "plain has {}, speculative {} (-1: ended)\n",
        difference.prompt_id, difference.drafter, difference.draft_max, difference.temperature,
        difference.threads, difference.seed, difference.position, difference.plain_token,
        difference.speculative_token);
  }
  fmt::print("{} runs, {} differences\n", report.runs, report.num_differences);
}

void NoteIdleDrafters(const AuditReport& report) {
  std::map<std::string, int64_t> drafted;
  for (const AuditRow& row : report.rows) {
    const bool is_plain = row.draft_max == 0 || row.drafter == "none";
    if (!is_plain) drafted[row.drafter] += row.drafted;
  }
  for (const auto& [drafter, count] : drafted) {
    if (count > 0) continue;
    fmt::print(stderr, "tahmin: note: {} drafted nothing in any run, so its rows prove nothing\n",
               drafter);
  }
}

}  // namespace tahmin::cli
