// What `tahmin inspect` says of a file: metadata, tensors, memory plan, instruction sets.
#pragma once

#include "gguf/gguf_file.h"
#include "nlohmann/json.hpp"
#include "tahmin/engine.h"

namespace tahmin::cli {

nlohmann::json FileToJson(const GgufFile& file, const MemoryPlan& plan);
void PrintFile(const GgufFile& file, const MemoryPlan& plan, bool list_tensors);

}  // namespace tahmin::cli
