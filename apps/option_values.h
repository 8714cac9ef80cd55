// Option values that the command-line parser does not know: lists, seeds, biases, prompt files.
// Every error is a usage error that names the flag, what it expected and what it found.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tahmin/options.h"

namespace tahmin::cli {

absl::StatusOr<KvType> ParseKvType(const std::string& flag, const std::string& text);
absl::StatusOr<DraftRepack> ParseDraftRepack(const std::string& text);
absl::StatusOr<DraftHead> ParseDraftHead(const std::string& text);
absl::StatusOr<std::pair<int32_t, float>> ParseBias(const std::string& text);  // "42=-1.5"
absl::StatusOr<uint64_t> ParseSeed(const std::string& text);

// "1,2,4" -> {1, 2, 4}; each in [min, max].
absl::StatusOr<std::vector<int32_t>> ParseIntList(const std::string& name, const std::string& text,
                                                  int32_t min, int32_t max);
absl::StatusOr<std::vector<double>> ParseNumberList(const std::string& name,
                                                    const std::string& text);
std::vector<std::string> SplitCommas(const std::string& text);

}  // namespace tahmin::cli
