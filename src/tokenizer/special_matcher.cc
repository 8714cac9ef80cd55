#include "tokenizer/special_matcher.h"

#include <algorithm>

#include "fmt/format.h"

namespace tahmin {

SpecialMatcher::SpecialMatcher() : nodes_(1) {}

absl::Status SpecialMatcher::Add(std::string_view text, int32_t token, bool always) {
  if (text.empty()) return absl::OkStatus();
  if (text.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        fmt::format("special token {} is {} bytes long; at most {} are supported", token,
                    text.size(), kMaxTextBytes));
  }
  starts_token_[static_cast<uint8_t>(text[0])] = true;
  uint32_t node = 0;
  for (const char c : text) {
    const uint64_t key = (uint64_t{node} << 8) | static_cast<uint8_t>(c);
    const auto [entry, inserted] = children_.try_emplace(key, nodes_.size());
    if (inserted) nodes_.emplace_back();
    node = entry->second;
  }
  if (nodes_[node].token < 0) nodes_[node] = Node{token, always};
  return absl::OkStatus();
}

uint32_t SpecialMatcher::Child(uint32_t node, uint8_t byte) const {
  const auto entry = children_.find((uint64_t{node} << 8) | byte);
  return entry == children_.end() ? 0 : entry->second;
}

SpecialMatcher::Match SpecialMatcher::Find(std::string_view text, size_t from,
                                           bool parse_control) const {
  for (size_t start = from; start < text.size(); ++start) {
    if (!starts_token_[static_cast<uint8_t>(text[start])]) continue;
    Match longest{text.size(), 0, -1};
    uint32_t node = 0;
    for (size_t end = start; end < text.size(); ++end) {
      node = Child(node, static_cast<uint8_t>(text[end]));
      if (node == 0) break;
      const Node& here = nodes_[node];
      if (here.token >= 0 && (here.always || parse_control)) {
        longest = Match{start, end + 1 - start, here.token};
      }
    }
    if (longest.token >= 0) return longest;
  }
  return Match{text.size(), 0, -1};
}

}  // namespace tahmin
