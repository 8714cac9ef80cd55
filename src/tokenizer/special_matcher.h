// Finds the texts of control and user-defined tokens inside plain text: leftmost, then longest. A
// byte trie, so the cost per position does not grow with the number of such tokens. Immutable after
// Build; any thread may search.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

namespace tahmin {

class SpecialMatcher {
 public:
  // Longer texts than this are refused: they would make every search slow.
  static constexpr size_t kMaxTextBytes = 512;

  struct Match {
    size_t position = 0;  // of the first byte; the text's size when nothing matches
    size_t num_bytes = 0;
    int32_t token = -1;  // -1: no match
  };

  SpecialMatcher();

  // `always`: matched in every search, not only where control tokens are parsed. Empty texts are
  // ignored; of two equal texts the first added stays.
  absl::Status Add(std::string_view text, int32_t token, bool always);

  Match Find(std::string_view text, size_t from, bool parse_control) const;

 private:
  struct Node {
    int32_t token = -1;
    bool always = false;
  };
  uint32_t Child(uint32_t node, uint8_t byte) const;

  std::vector<Node> nodes_;                           // node 0 is the root
  absl::flat_hash_map<uint64_t, uint32_t> children_;  // node << 8 | byte -> node
  bool starts_token_[256] = {};
};

}  // namespace tahmin
