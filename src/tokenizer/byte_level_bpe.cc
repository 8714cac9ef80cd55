// Byte-level byte pair encoding (GPT-2's): every byte has a printable stand-in character, pieces of
// text start as one token per byte, and the neighbouring pair with the lowest merge rank (leftmost
// among equals) is joined until no pair has a rank.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <queue>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/vocabulary_tokenizer.h"

namespace tahmin {
namespace {

constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();

uint64_t PairKey(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

// One piece in the making: a linked list over its bytes' positions.
struct Symbol {
  int32_t token;
  int32_t previous;
  int32_t next;        // -1: last
  uint32_t pair_rank;  // of (this, next); kNoRank: no such merge, or this symbol is gone
};

class ByteLevelBpe final : public VocabularyTokenizer {
 public:
  ByteLevelBpe(Vocabulary vocabulary, std::unique_ptr<PreTokenizer> pre_tokenizer)
      : VocabularyTokenizer(std::move(vocabulary)), pre_tokenizer_(std::move(pre_tokenizer)) {}

  absl::Status ReadMerges(const GgufFile& file);
  void FindByteTokens();

 private:
  // Symbols and queue of the piece at hand, kept from piece to piece to save allocations.
  struct Scratch {
    std::vector<std::string_view> pieces;
    std::vector<Symbol> symbols;
    std::vector<uint64_t> queue;  // a min-heap of rank << 32 | position
    std::string spelled;
  };

  absl::Status TokenizeText(std::string_view text, std::vector<int32_t>& out) const override;
  std::string OrdinaryBytes(int32_t token) const override {
    return DecodeByteAlphabet(vocabulary().texts[token]);
  }

  uint32_t RankOf(int32_t left, int32_t right) const {
    const auto entry = ranks_.find(PairKey(left, right));
    return entry == ranks_.end() ? kNoRank : entry->second;
  }
  std::optional<int32_t> WholePiece(std::string_view piece, Scratch& scratch) const;
  absl::Status FillSymbols(std::string_view piece, std::vector<Symbol>& symbols) const;
  void MergeShort(std::vector<Symbol>& symbols) const;
  void MergeLong(Scratch& scratch) const;
  // Joins the symbol at `left` with the next one and renews the ranks of the two pairs it is in.
  void Join(std::vector<Symbol>& symbols, int32_t left) const;

  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  absl::flat_hash_map<uint64_t, uint32_t> ranks_;  // pair of ids -> rank
  std::vector<int32_t> merged_;                    // rank -> id of the joined token
  std::array<int32_t, 256> byte_tokens_{};         // -1: the vocabulary has no token for the byte
};

absl::Status ByteLevelBpe::ReadMerges(const GgufFile& file) {
  constexpr std::string_view kKey = "tokenizer.ggml.merges";
  TAHMIN_ASSIGN_OR_RETURN(const std::vector<std::string_view> merges, file.GetStringArray(kKey));
  if (merges.size() >= kNoRank) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} entries are too many", kKey, merges.size()));
  }
  ranks_.reserve(merges.size());
  merged_.reserve(merges.size());
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos) {
      return absl::InvalidArgumentError(
          fmt::format("{}[{}]: expected two tokens with a space between, found '{}'", kKey, rank,
                      std::string(merge)));
    }
    joined.assign(merge.substr(0, space)).append(merge.substr(space + 1));
    const int32_t left = vocabulary().Find(merge.substr(0, space));
    const int32_t right = vocabulary().Find(merge.substr(space + 1));
    const int32_t result = vocabulary().Find(joined);
    if (left < 0 || right < 0 || result < 0) {
      return absl::InvalidArgumentError(
          fmt::format("{}[{}]: '{}' joins or makes a token that the vocabulary does not have", kKey,
                      rank, std::string(merge)));
    }
    merged_.push_back(result);
    ranks_.try_emplace(PairKey(left, right), static_cast<uint32_t>(rank));
  }
  return absl::OkStatus();
}

void ByteLevelBpe::FindByteTokens() {
  for (int byte = 0; byte < 256; ++byte) {
    byte_tokens_[byte] =
        vocabulary().Find(EncodeByteAlphabet(std::string(1, static_cast<char>(byte))));
  }
}

std::optional<int32_t> ByteLevelBpe::WholePiece(std::string_view piece, Scratch& scratch) const {
  scratch.spelled.clear();
  AppendByteAlphabet(piece, scratch.spelled);
  const int32_t token = vocabulary().Find(scratch.spelled);
  if (token < 0 || vocabulary().kinds[token] != Vocabulary::kNormal) return std::nullopt;
  return token;
}

absl::Status ByteLevelBpe::FillSymbols(std::string_view piece, std::vector<Symbol>& symbols) const {
  symbols.clear();
  for (size_t i = 0; i < piece.size(); ++i) {
    const uint8_t byte = static_cast<uint8_t>(piece[i]);
    int32_t token = byte_tokens_[byte];
    if (token < 0) token = vocabulary().special.unknown;
    if (token < 0) {
      return absl::InvalidArgumentError(fmt::format(
          "the vocabulary has no token for the byte 0x{:02X} and no unknown token", byte));
    }
    const int32_t position = static_cast<int32_t>(i);
    symbols.push_back(Symbol{token, position - 1, position + 1, kNoRank});
  }
  symbols.back().next = -1;
  for (size_t i = 0; i + 1 < symbols.size(); ++i) {
    symbols[i].pair_rank = RankOf(symbols[i].token, symbols[i + 1].token);
  }
  return absl::OkStatus();
}

void ByteLevelBpe::Join(std::vector<Symbol>& symbols, int32_t left) const {
  Symbol& symbol = symbols[left];
  Symbol& gone = symbols[symbol.next];
  symbol.token = merged_[symbol.pair_rank];
  symbol.next = gone.next;
  gone.pair_rank = kNoRank;
  symbol.pair_rank = kNoRank;
  if (symbol.next >= 0) {
    symbols[symbol.next].previous = left;
    symbol.pair_rank = RankOf(symbol.token, symbols[symbol.next].token);
  }
  if (symbol.previous >= 0) {
    Symbol& before = symbols[symbol.previous];
    before.pair_rank = RankOf(before.token, symbol.token);
  }
}

// For the usual pieces of a few bytes: look for the best pair each time.
void ByteLevelBpe::MergeShort(std::vector<Symbol>& symbols) const {
  while (true) {
    int32_t best = 0;
    for (int32_t i = 0; i >= 0; i = symbols[i].next) {
      if (symbols[i].pair_rank < symbols[best].pair_rank) best = i;
    }
    if (symbols[best].pair_rank == kNoRank) return;
    Join(symbols, best);
  }
}

// For pieces of any length: n log n. An entry of the queue is stale when the rank of the pair that
// starts at its position has changed since; a rank stands for one pair of tokens, so equal ranks
// mean the same merge.
void ByteLevelBpe::MergeLong(Scratch& scratch) const {
  std::vector<Symbol>& symbols = scratch.symbols;
  std::vector<uint64_t>& queue = scratch.queue;
  const auto entry_of = [&](int32_t position) {
    return (uint64_t{symbols[position].pair_rank} << 32) | static_cast<uint32_t>(position);
  };
  queue.clear();
  for (size_t i = 0; i < symbols.size(); ++i) {
    if (symbols[i].pair_rank != kNoRank) queue.push_back(entry_of(static_cast<int32_t>(i)));
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  const auto push = [&](int32_t position) {
    if (position < 0 || symbols[position].pair_rank == kNoRank) return;
    queue.push_back(entry_of(position));
    std::push_heap(queue.begin(), queue.end(), std::greater<>());
  };
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const uint64_t entry = queue.back();
    queue.pop_back();
    const int32_t position = static_cast<int32_t>(entry & 0xFFFFFFFF);
    if (symbols[position].pair_rank != entry >> 32) continue;
    Join(symbols, position);
    push(position);
    push(symbols[position].previous);
  }
}

absl::Status ByteLevelBpe::TokenizeText(std::string_view text, std::vector<int32_t>& out) const {
  constexpr size_t kShortPieceBytes = 24;
  Scratch scratch;
  TAHMIN_RETURN_IF_ERROR(pre_tokenizer_->Split(text, scratch.pieces));
  for (const std::string_view piece : scratch.pieces) {
    if (pre_tokenizer_->ignore_merges()) {
      const std::optional<int32_t> whole = WholePiece(piece, scratch);
      if (whole.has_value()) {
        out.push_back(*whole);
        continue;
      }
    }
    TAHMIN_RETURN_IF_ERROR(FillSymbols(piece, scratch.symbols));
    if (piece.size() <= kShortPieceBytes) {
      MergeShort(scratch.symbols);
    } else {
      MergeLong(scratch);
    }
    for (int32_t i = 0; i >= 0; i = scratch.symbols[i].next) {
      out.push_back(scratch.symbols[i].token);
    }
  }
  return absl::OkStatus();
}

// The Llama-3 family was converted without tokenizer.ggml.add_bos_token and begins every text.
bool DefaultAddBegin(const PreTokenizer& pre_tokenizer) { return pre_tokenizer.ignore_merges(); }

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> CreateByteLevelBpe(const GgufFile& file,
                                                              std::string_view pre) {
  TAHMIN_ASSIGN_OR_RETURN(std::unique_ptr<PreTokenizer> pre_tokenizer, PreTokenizer::Create(pre));
  TAHMIN_ASSIGN_OR_RETURN(Vocabulary vocabulary,
                          Vocabulary::Load(file, DefaultAddBegin(*pre_tokenizer)));
  auto tokenizer = std::make_unique<ByteLevelBpe>(std::move(vocabulary), std::move(pre_tokenizer));
  TAHMIN_RETURN_IF_ERROR(tokenizer->ReadMerges(file));
  tokenizer->FindByteTokens();
  return tokenizer;
}

}  // namespace tahmin
