#include "apps/option_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "apps/command.h"
#include "base/status_macros.h"
#include "fmt/format.h"

namespace tahmin::cli {

namespace {

// The whole text is one number of type T.
template <typename T>
bool ParseWhole(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

// from_chars for floating point is newer than the oldest standard library we build with.
bool ParseReal(const std::string& text, double* value) {
  if (text.empty() || std::isspace(static_cast<unsigned char>(text[0]))) return false;
  char* end = nullptr;
  *value = std::strtod(text.c_str(), &end);
  return end == text.c_str() + text.size();
}

}  // namespace

absl::StatusOr<KvType> ParseKvType(const std::string& flag, const std::string& text) {
  if (text == "f16") return KvType::kF16;
  if (text == "f32") return KvType::kF32;
  return UsageError(fmt::format("{}: expected f16 or f32, found '{}'", flag, text));
}

absl::StatusOr<DraftRepack> ParseDraftRepack(const std::string& text) {
  if (text == "auto") return DraftRepack::kAuto;
  if (text == "stored") return DraftRepack::kStored;
  if (text == "4bit") return DraftRepack::k4Bit;
  return UsageError(fmt::format("--draft-repack: expected auto, stored or 4bit, found '{}'", text));
}

absl::StatusOr<DraftHead> ParseDraftHead(const std::string& text) {
  if (text == "auto") return DraftHead::kAuto;
  if (text == "exact") return DraftHead::kExact;
  if (text == "frequent") return DraftHead::kFrequent;
  if (text == "coarse") return DraftHead::kCoarse;
  return UsageError(
      fmt::format("--draft-head: expected auto, exact, frequent or coarse, found '{}'", text));
}

absl::StatusOr<std::pair<int32_t, float>> ParseBias(const std::string& text) {
  const size_t equals = text.find('=');
  int32_t token = 0;
  double bias = 0;
  if (equals == std::string::npos ||
      !ParseWhole(std::string_view(text).substr(0, equals), &token) || token < 0 ||
      !ParseReal(text.substr(equals + 1), &bias)) {
    return UsageError(fmt::format(
        "--logit-bias: expected ID=VALUE such as 42=-1.5 or 42=-inf, found '{}'", text));
  }
  return std::pair<int32_t, float>{token, static_cast<float>(bias)};
}

absl::StatusOr<uint64_t> ParseSeed(const std::string& text) {
  uint64_t seed = 0;
  if (!ParseWhole(text, &seed)) {
    return UsageError(
        fmt::format("--seed: expected a whole number from 0 to 2^64 - 1, found '{}'", text));
  }
  return seed;
}

std::vector<std::string> SplitCommas(const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return parts;
}

absl::StatusOr<std::vector<double>> ParseNumberList(const std::string& name,
                                                    const std::string& text) {
  std::vector<double> values;
  for (const std::string& part : SplitCommas(text)) {
    double value = 0;
    if (!ParseReal(part, &value) || !std::isfinite(value)) {
      return UsageError(
          fmt::format("{}: expected numbers separated by commas, found '{}'", name, text));
    }
    values.push_back(value);
  }
  return values;
}

absl::StatusOr<std::vector<int32_t>> ParseIntList(const std::string& name, const std::string& text,
                                                  int32_t min, int32_t max) {
  std::vector<int32_t> values;
  for (const std::string& part : SplitCommas(text)) {
    int32_t value = 0;
    if (!ParseWhole(part, &value) || value < min || value > max) {
      return UsageError(
          fmt::format("{}: expected whole numbers from {} to {} separated by commas, found '{}'",
                      name, min, max, text));
    }
    values.push_back(value);
  }
  return values;
}

}  // namespace tahmin::cli
