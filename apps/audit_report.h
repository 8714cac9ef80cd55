// What `tahmin audit` found: a table for people, an object for programs.
#pragma once

#include "measure/identity_audit.h"
#include "nlohmann/json.hpp"

namespace tahmin::cli {

nlohmann::json AuditReportToJson(const AuditReport& report);
void PrintAuditReport(const AuditReport& report);

// On stderr: the drafters that guessed nothing in any run. Their rows prove nothing.
void NoteIdleDrafters(const AuditReport& report);

}  // namespace tahmin::cli
