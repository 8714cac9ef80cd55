// The token table of a GGUF file, checked and copied: texts, types, scores, special ids, and the
// lookups that both tokenizer models need. The file may be closed afterwards. Immutable after Load.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "gguf/gguf_file.h"
#include "tokenizer/special_matcher.h"
#include "tokenizer/tokenizer.h"

namespace tahmin {

// Hash and equality over std::string_view (Debian's absl::string_view is another type).
struct TextHash {
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

struct Vocabulary {
  // The metadata's own numbers.
  enum Kind : uint8_t {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6,
  };

  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary(const Vocabulary&) = delete;

  // `default_add_begin`: for files that do not say.
  static absl::StatusOr<Vocabulary> Load(const GgufFile& file, bool default_add_begin);

  int32_t size() const { return static_cast<int32_t>(texts.size()); }
  bool Contains(int32_t token) const { return token >= 0 && token < size(); }
  // The lowest id with this text, of any kind; -1: none.
  int32_t Find(std::string_view text) const;
  bool IsPadding(int32_t token) const;
  bool IsControl(int32_t token) const;

  std::vector<char> storage;            // the bytes that `texts` point into
  std::vector<std::string_view> texts;  // [vocab_size]
  std::vector<Kind> kinds;              // [vocab_size]
  absl::flat_hash_map<std::string_view, int32_t, TextHash, std::equal_to<>> ids;
  SpecialTokens special;
  SpecialMatcher matcher;
};

}  // namespace tahmin
