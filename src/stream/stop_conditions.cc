#include "stream/stop_conditions.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tahmin {

std::string_view FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  TAHMIN_CHECK(false);
  return "";
}

StopConditions::StopConditions(StopConfig config) : config_(std::move(config)) {
  std::erase_if(config_.stop_strings,
                [](const std::string& stop) { return stop.empty() || !IsValidUtf8(stop); });
}

TokenOutcome StopConditions::Commit(int32_t token, std::string_view bytes) {
  TAHMIN_CHECK(finish_ == FinishReason::kNone);
  const auto num_before = static_cast<int64_t>(token_starts_.size());
  const size_t num_shown = text_.size();
  TokenOutcome outcome;
  const auto& end_tokens = config_.end_tokens;
  if (std::find(end_tokens.begin(), end_tokens.end(), token) != end_tokens.end()) {
    outcome.is_part_of_output = false;
    End(FinishReason::kStop, num_before);
  } else {
    token_starts_.push_back(StartOf(bytes));
    if (HoldAndMatch(assembler_.Append(bytes))) {
      finish_ = FinishReason::kStop;
    } else if (num_before + 1 == config_.max_tokens) {
      End(FinishReason::kLength, num_before + 1);
    }
  }
  outcome.finish = finish_;
  outcome.delta = text_.substr(num_shown);
  return outcome;
}

std::string StopConditions::Finish(FinishReason reason) {
  if (finish_ != FinishReason::kNone) return "";
  const size_t num_shown = text_.size();
  End(reason, static_cast<int64_t>(token_starts_.size()));
  return text_.substr(num_shown);
}

// Releases everything. The replacement of an unfinished character is text like any other, so it too
// may complete a stop string.
void StopConditions::End(FinishReason reason, int64_t num_kept_tokens) {
  finish_ = reason;
  num_output_tokens_ = num_kept_tokens;
  if (HoldAndMatch(assembler_.Finish())) {
    if (reason == FinishReason::kLength) finish_ = FinishReason::kStop;
    return;
  }
  text_ += held_;
  held_.clear();
}

// Where the text of a token begins that is about to be appended.
size_t StopConditions::StartOf(std::string_view bytes) const {
  constexpr size_t kReplacementBytes = 3;
  const size_t start = text_.size() + held_.size();
  const bool breaks_off =
      assembler_.has_pending() && !bytes.empty() && !assembler_.WouldContinue(bytes.front());
  return breaks_off ? start + kReplacementBytes : start;
}

// Adds complete characters to the held text. With no stop string in it, releases all but what may
// begin one. At the first place where a stop string ends, cuts text and tokens before it and
// returns true.
bool StopConditions::HoldAndMatch(std::string_view new_text) {
  const size_t num_old = held_.size();
  held_ += new_text;
  for (size_t end = num_old + 1; end <= held_.size(); ++end) {
    const size_t stop_bytes = LongestStopEndingAt(end);
    if (stop_bytes == 0) continue;
    text_.append(held_, 0, end - stop_bytes);
    held_.clear();
    const auto first_dropped =
        std::lower_bound(token_starts_.begin(), token_starts_.end(), text_.size());
    num_output_tokens_ = first_dropped - token_starts_.begin();
    return true;
  }
  const size_t num_released = held_.size() - NumHeldBytes();
  text_.append(held_, 0, num_released);
  held_.erase(0, num_released);
  return false;
}

size_t StopConditions::LongestStopEndingAt(size_t end) const {
  const std::string_view text = std::string_view(held_).substr(0, end);
  size_t longest = 0;
  for (const std::string& stop : config_.stop_strings) {
    if (text.ends_with(stop)) longest = std::max(longest, stop.size());
  }
  return longest;
}

// The length of the longest suffix of the held text that is the beginning of a stop string.
size_t StopConditions::NumHeldBytes() const {
  size_t longest = 0;
  for (const std::string& stop : config_.stop_strings) {
    size_t size = std::min(held_.size(), stop.size() - 1);
    for (; size > longest; --size) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, size))) break;
    }
    longest = std::max(longest, size);
  }
  return longest;
}

}  // namespace tahmin
