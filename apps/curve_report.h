// What `tahmin inspect --curve` measured: T(n) beside the machine's limits.
#pragma once

#include <cstdint>

#include "measure/cost_curve.h"
#include "nlohmann/json.hpp"
#include "tahmin/engine.h"

namespace tahmin::cli {

nlohmann::json CurveToJson(const CostCurve& curve, const Engine& engine, int64_t context);
void PrintCurve(const nlohmann::json& object);  // of CurveToJson

}  // namespace tahmin::cli
