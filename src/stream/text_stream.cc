// WHATWG Encoding Standard, "UTF-8 decoder"; the byte ranges are Unicode's table 3-7.
#include "stream/text_stream.h"

#include <cstdint>

namespace tahmin {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

enum class ScanResult { kComplete, kUnfinished, kInvalid };

struct ScannedCharacter {
  ScanResult result;
  size_t num_bytes;  // of the character, or of the maximal subpart that is replaced as one
};

struct LeadByte {
  size_t num_bytes;  // of the whole character; 0: no character begins so
  uint8_t second_low, second_high;
};

LeadByte ClassifyLead(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead >= 0xC2 && lead <= 0xDF) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};  // below: overlong
  if (lead == 0xED) return {3, 0x80, 0x9F};  // above: surrogates
  if (lead >= 0xE1 && lead <= 0xEF) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};  // below: overlong
  if (lead >= 0xF1 && lead <= 0xF3) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};  // above: beyond U+10FFFF
  return {0, 0, 0};
}

// The character at the front of `bytes`, which is not empty.
ScannedCharacter ScanCharacter(std::string_view bytes) {
  const LeadByte lead = ClassifyLead(static_cast<uint8_t>(bytes[0]));
  if (lead.num_bytes == 0) return {ScanResult::kInvalid, 1};
  for (size_t i = 1; i < lead.num_bytes; ++i) {
    if (i == bytes.size()) return {ScanResult::kUnfinished, i};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    const uint8_t low = i == 1 ? lead.second_low : 0x80;
    const uint8_t high = i == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return {ScanResult::kInvalid, i};
  }
  return {ScanResult::kComplete, lead.num_bytes};
}

}  // namespace

std::string Utf8Assembler::Append(std::string_view bytes) {
  const std::string input = pending_.append(bytes);
  pending_.clear();
  std::string text;
  text.reserve(input.size());
  std::string_view rest = input;
  while (!rest.empty()) {
    const ScannedCharacter scanned = ScanCharacter(rest);
    if (scanned.result == ScanResult::kUnfinished) {
      pending_ = rest;
      break;
    }
    text.append(scanned.result == ScanResult::kComplete ? rest.substr(0, scanned.num_bytes)
                                                        : kReplacement);
    rest.remove_prefix(scanned.num_bytes);
  }
  return text;
}

std::string Utf8Assembler::Finish() {
  if (pending_.empty()) return "";
  pending_.clear();
  return std::string(kReplacement);
}

bool Utf8Assembler::WouldContinue(char byte) const {
  return !pending_.empty() && ScanCharacter(pending_ + byte).result != ScanResult::kInvalid;
}

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const ScannedCharacter scanned = ScanCharacter(text);
    if (scanned.result != ScanResult::kComplete) return false;
    text.remove_prefix(scanned.num_bytes);
  }
  return true;
}

}  // namespace tahmin
