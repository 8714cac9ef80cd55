// SentencePiece's byte pair encoding as Llama and Mistral vocabularies use it: spaces become
// U+2581, the text starts as characters, and the neighbouring pair that makes the token with the
// highest score (leftmost among equals) is joined until no pair makes a token. Characters without a
// token fall back to byte tokens. Kudo and Richardson, "SentencePiece" (arXiv 1808.06226); where it
// would insert the unknown token for a run of unknown characters, byte fallback comes first.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <queue>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "tokenizer/utf8.h"
#include "tokenizer/vocabulary_tokenizer.h"

namespace tahmin {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

// A stretch of the escaped text: a linked list in text order.
struct Symbol {
  int32_t offset;
  int32_t num_bytes;  // 0: joined to the symbol before
  int32_t previous;
  int32_t next;   // -1: last
  int32_t token;  // -1: the vocabulary does not have it
};

struct Candidate {
  float score;
  int32_t left;
  int32_t num_bytes;  // of both symbols; another length now means that one of them has changed
  int32_t token;
};

struct IsWorse {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.score < b.score || (a.score == b.score && a.left > b.left);
  }
};
using Queue = std::priority_queue<Candidate, std::vector<Candidate>, IsWorse>;

std::string Escape(std::string_view text, bool add_space_prefix) {
  std::string escaped;
  escaped.reserve(text.size() + text.size() / 2 + kSpaceMark.size());
  if (add_space_prefix) escaped += kSpaceMark;
  for (const char c : text) {
    if (c == ' ') {
      escaped += kSpaceMark;
    } else {
      escaped.push_back(c);
    }
  }
  return escaped;
}

class SentencePiece final : public VocabularyTokenizer {
 public:
  explicit SentencePiece(Vocabulary vocabulary) : VocabularyTokenizer(std::move(vocabulary)) {}

  absl::Status ReadTables(const GgufFile& file);
  std::string Detokenize(const std::vector<int32_t>& tokens, bool render_special) const override;

 private:
  absl::Status TokenizeText(std::string_view text, std::vector<int32_t>& out) const override;
  std::string OrdinaryBytes(int32_t token) const override;

  // The token that text may become by merging: never a control, unknown or byte token.
  int32_t Mergeable(std::string_view text) const;
  std::vector<Symbol> Characters(std::string_view escaped) const;
  void Merge(std::string_view escaped, std::vector<Symbol>& symbols) const;
  void PushPair(std::string_view escaped, const std::vector<Symbol>& symbols, int32_t left,
                Queue& queue) const;
  absl::Status AppendBytes(std::string_view bytes, std::vector<int32_t>& out) const;

  std::vector<float> scores_;               // [vocab_size]
  std::array<int32_t, 256> byte_tokens_{};  // -1: none
  std::vector<int16_t> byte_values_;        // [vocab_size]; -1: not a byte token
  size_t max_token_bytes_ = 0;
  bool add_space_prefix_ = true;
};

absl::Status SentencePiece::ReadTables(const GgufFile& file) {
  constexpr std::string_view kScores = "tokenizer.ggml.scores";
  TAHMIN_ASSIGN_OR_RETURN(const std::vector<double> scores, file.GetFloatArray(kScores));
  const size_t num_tokens = vocabulary().texts.size();
  if (scores.size() != num_tokens) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: expected {} entries, one per token, found {}", kScores, num_tokens, scores.size()));
  }
  for (size_t i = 0; i < num_tokens; ++i) {
    if (std::isnan(scores[i])) {
      return absl::InvalidArgumentError(fmt::format("{}[{}] is not a number", kScores, i));
    }
    max_token_bytes_ = std::max(max_token_bytes_, vocabulary().texts[i].size());
  }
  scores_.assign(scores.begin(), scores.end());

  byte_values_.assign(num_tokens, -1);
  const bool has_types = file.FindEntry("tokenizer.ggml.token_type") != nullptr;
  for (int byte = 0; byte < 256; ++byte) {
    const int32_t token = vocabulary().Find(fmt::format("<0x{:02X}>", byte));
    byte_tokens_[byte] = -1;
    if (token < 0 || (has_types && vocabulary().kinds[token] != Vocabulary::kByte)) continue;
    byte_tokens_[byte] = token;
    byte_values_[token] = static_cast<int16_t>(byte);
  }
  constexpr std::string_view kPrefix = "tokenizer.ggml.add_space_prefix";
  if (file.FindEntry(kPrefix) != nullptr) {
    TAHMIN_ASSIGN_OR_RETURN(add_space_prefix_, file.GetBool(kPrefix));
  }
  return absl::OkStatus();
}

int32_t SentencePiece::Mergeable(std::string_view text) const {
  if (text.size() > max_token_bytes_) return -1;
  const int32_t token = vocabulary().Find(text);
  if (token < 0 || byte_values_[token] >= 0) return -1;
  const Vocabulary::Kind kind = vocabulary().kinds[token];
  const bool is_text = kind == Vocabulary::kNormal || kind == Vocabulary::kUserDefined ||
                       kind == Vocabulary::kUnused;
  return is_text ? token : -1;
}

std::vector<Symbol> SentencePiece::Characters(std::string_view escaped) const {
  std::vector<Symbol> symbols;
  for (size_t offset = 0; offset < escaped.size();) {
    const size_t num_bytes = std::max<size_t>(1, Utf8CharacterBytes(escaped.substr(offset)));
    const int32_t position = static_cast<int32_t>(symbols.size());
    symbols.push_back(Symbol{static_cast<int32_t>(offset), static_cast<int32_t>(num_bytes),
                             position - 1, position + 1,
                             Mergeable(escaped.substr(offset, num_bytes))});
    offset += num_bytes;
  }
  symbols.back().next = -1;
  return symbols;
}

void SentencePiece::PushPair(std::string_view escaped, const std::vector<Symbol>& symbols,
                             int32_t left, Queue& queue) const {
  if (left < 0 || symbols[left].next < 0) return;
  const int32_t num_bytes = symbols[left].num_bytes + symbols[symbols[left].next].num_bytes;
  const int32_t token =
      Mergeable(escaped.substr(static_cast<size_t>(symbols[left].offset), num_bytes));
  if (token >= 0) queue.push(Candidate{scores_[token], left, num_bytes, token});
}

void SentencePiece::Merge(std::string_view escaped, std::vector<Symbol>& symbols) const {
  Queue queue;
  for (size_t i = 0; i + 1 < symbols.size(); ++i) {
    PushPair(escaped, symbols, static_cast<int32_t>(i), queue);
  }
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[best.left];
    if (left.num_bytes == 0 || left.next < 0) continue;
    Symbol& right = symbols[left.next];
    if (left.num_bytes + right.num_bytes != best.num_bytes) continue;
    left.num_bytes = best.num_bytes;
    left.token = best.token;
    left.next = right.next;
    right.num_bytes = 0;
    if (left.next >= 0) symbols[left.next].previous = best.left;
    PushPair(escaped, symbols, left.previous, queue);
    PushPair(escaped, symbols, best.left, queue);
  }
}

absl::Status SentencePiece::AppendBytes(std::string_view bytes, std::vector<int32_t>& out) const {
  const bool has_all = std::all_of(bytes.begin(), bytes.end(), [&](char c) {
    return byte_tokens_[static_cast<uint8_t>(c)] >= 0;
  });
  if (has_all) {
    for (const char c : bytes) out.push_back(byte_tokens_[static_cast<uint8_t>(c)]);
    return absl::OkStatus();
  }
  if (vocabulary().special.unknown < 0) {
    return absl::InvalidArgumentError(fmt::format(
        "the vocabulary has neither a token nor byte tokens for the character with first "
        "byte 0x{:02X}, and no unknown token",
        static_cast<uint8_t>(bytes[0])));
  }
  out.push_back(vocabulary().special.unknown);
  return absl::OkStatus();
}

absl::Status SentencePiece::TokenizeText(std::string_view text, std::vector<int32_t>& out) const {
  const std::string escaped = Escape(text, add_space_prefix_);
  if (escaped.size() > size_t{std::numeric_limits<int32_t>::max()}) {
    return absl::ResourceExhaustedError(
        fmt::format("a text of {} bytes is too long to tokenize", text.size()));
  }
  std::vector<Symbol> symbols = Characters(escaped);
  Merge(escaped, symbols);
  for (int32_t i = 0; i >= 0; i = symbols[i].next) {
    const Symbol& symbol = symbols[i];
    if (symbol.token >= 0) {
      out.push_back(symbol.token);
      continue;
    }
    const std::string_view bytes =
        std::string_view(escaped).substr(static_cast<size_t>(symbol.offset), symbol.num_bytes);
    TAHMIN_RETURN_IF_ERROR(AppendBytes(bytes, out));
  }
  return absl::OkStatus();
}

std::string SentencePiece::OrdinaryBytes(int32_t token) const {
  if (byte_values_[token] >= 0) return std::string(1, static_cast<char>(byte_values_[token]));
  std::string_view text = vocabulary().texts[token];
  std::string bytes;
  while (true) {
    const size_t mark = text.find(kSpaceMark);
    bytes += text.substr(0, mark);
    if (mark == std::string_view::npos) return bytes;
    bytes.push_back(' ');
    text.remove_prefix(mark + kSpaceMark.size());
  }
}

std::string SentencePiece::Detokenize(const std::vector<int32_t>& tokens,
                                      bool render_special) const {
  std::string text;
  bool drop_space = add_space_prefix_;
  for (const int32_t token : tokens) {
    std::string bytes = TokenBytes(token, render_special);
    if (!IsControl(token) && !bytes.empty()) {
      if (drop_space && TokenText(token).starts_with(kSpaceMark)) bytes.erase(0, 1);
      drop_space = false;
    }
    text += bytes;
  }
  return text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> CreateSentencePiece(const GgufFile& file) {
  TAHMIN_ASSIGN_OR_RETURN(Vocabulary vocabulary,
                          Vocabulary::Load(file, /*default_add_begin=*/true));
  auto tokenizer = std::make_unique<SentencePiece>(std::move(vocabulary));
  TAHMIN_RETURN_IF_ERROR(tokenizer->ReadTables(file));
  return tokenizer;
}

}  // namespace tahmin
