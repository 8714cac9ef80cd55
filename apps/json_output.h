// The JSON that several commands print: one line an object, nothing else on stdout.
#pragma once

#include <string>

#include "nlohmann/json.hpp"
#include "tahmin/engine.h"

namespace tahmin::cli {

// One line; bytes that are no UTF-8 (metadata of a damaged file) become replacement marks.
std::string DumpJson(const nlohmann::json& object);

// One answer: text, ids, finish_reason, seed, drafter, prompt_ids, stats, and logprobs when they
// were asked for.
nlohmann::json ResultToJson(const GenerationResult& result, const GenerationRequest& request);

}  // namespace tahmin::cli
