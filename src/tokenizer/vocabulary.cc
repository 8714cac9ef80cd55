#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"

namespace tahmin {
namespace {

// Texts by which control tokens are known to end a turn or a document, whatever the metadata says.
constexpr std::string_view kTurnEnds[] = {
    "<|im_end|>", "<|endoftext|>",         "<|eot_id|>",
    "<|eom_id|>", "<|end_of_text|>",       "<end_of_turn>",
    "<|end|>",    "<|endofturn|>",         "<|end_of_turn|>",
    "<EOT>",      "<｜end▁of▁sentence｜>", "<|END_OF_TURN_TOKEN|>",
};

absl::Status CopyTexts(const GgufFile& file, Vocabulary& vocabulary) {
  TAHMIN_ASSIGN_OR_RETURN(const std::vector<std::string_view> texts,
                          file.GetStringArray("tokenizer.ggml.tokens"));
  if (texts.empty() || texts.size() > size_t{std::numeric_limits<int32_t>::max()}) {
    return absl::InvalidArgumentError(fmt::format(
        "tokenizer.ggml.tokens: expected 1 to 2^31 - 1 tokens, found {}", texts.size()));
  }
  size_t num_bytes = 0;
  for (const std::string_view text : texts) num_bytes += text.size();
  vocabulary.storage.reserve(num_bytes);
  vocabulary.texts.reserve(texts.size());
  vocabulary.ids.reserve(texts.size());
  for (const std::string_view text : texts) {
    const size_t offset = vocabulary.storage.size();
    vocabulary.storage.insert(vocabulary.storage.end(), text.begin(), text.end());
    const std::string_view copy(vocabulary.storage.data() + offset, text.size());
    // Of two tokens with one text the lower id is what text becomes; both can be read back.
    vocabulary.ids.try_emplace(copy, vocabulary.size());
    vocabulary.texts.push_back(copy);
  }
  return absl::OkStatus();
}

absl::Status ReadKinds(const GgufFile& file, Vocabulary& vocabulary) {
  vocabulary.kinds.assign(vocabulary.texts.size(), Vocabulary::kNormal);
  if (file.FindEntry("tokenizer.ggml.token_type") == nullptr) return absl::OkStatus();
  TAHMIN_ASSIGN_OR_RETURN(const std::vector<int64_t> kinds,
                          file.GetIntArray("tokenizer.ggml.token_type"));
  if (kinds.size() != vocabulary.texts.size()) {
    return absl::InvalidArgumentError(
        fmt::format("tokenizer.ggml.token_type: expected {} entries, one per token, found {}",
                    vocabulary.texts.size(), kinds.size()));
  }
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] < Vocabulary::kNormal || kinds[i] > Vocabulary::kByte) {
      return absl::InvalidArgumentError(fmt::format(
          "tokenizer.ggml.token_type: expected 1 to 6, found {} for token {}", kinds[i], i));
    }
    vocabulary.kinds[i] = static_cast<Vocabulary::Kind>(kinds[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<int32_t> CheckedId(const Vocabulary& vocabulary, std::string_view key, int64_t id) {
  // Converters write -1 (or its unsigned image) for "none".
  if (id == -1 || id == int64_t{std::numeric_limits<uint32_t>::max()}) return -1;
  if (id < 0 || id >= vocabulary.size()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected an id below {}, found {}", key, vocabulary.size(), id));
  }
  return static_cast<int32_t>(id);
}

absl::Status ReadId(const GgufFile& file, const Vocabulary& vocabulary, std::string_view key,
                    int32_t& out) {
  if (file.FindEntry(key) == nullptr) return absl::OkStatus();
  TAHMIN_ASSIGN_OR_RETURN(const int64_t id, file.GetInt(key));
  TAHMIN_ASSIGN_OR_RETURN(out, CheckedId(vocabulary, key, id));
  return absl::OkStatus();
}

absl::Status ReadFlag(const GgufFile& file, std::string_view key, bool& out) {
  if (file.FindEntry(key) == nullptr) return absl::OkStatus();
  TAHMIN_ASSIGN_OR_RETURN(out, file.GetBool(key));
  return absl::OkStatus();
}

// Every id that ends generation, sorted, without repeats.
absl::Status CollectEnds(const GgufFile& file, Vocabulary& vocabulary, int32_t end_of_message) {
  SpecialTokens& special = vocabulary.special;
  std::vector<int32_t> ends = {special.end, special.end_of_turn, end_of_message};
  constexpr std::string_view kKey = "tokenizer.ggml.eog_token_ids";
  if (file.FindEntry(kKey) != nullptr) {
    TAHMIN_ASSIGN_OR_RETURN(const std::vector<int64_t> listed, file.GetIntArray(kKey));
    for (const int64_t id : listed) {
      TAHMIN_ASSIGN_OR_RETURN(const int32_t checked, CheckedId(vocabulary, kKey, id));
      ends.push_back(checked);
    }
  }
  for (const std::string_view text : kTurnEnds) {
    const int32_t token = vocabulary.Find(text);
    if (vocabulary.IsControl(token)) ends.push_back(token);
  }
  std::erase(ends, -1);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  special.end_of_generation = std::move(ends);
  return absl::OkStatus();
}

absl::Status ReadSpecial(const GgufFile& file, bool default_add_begin, Vocabulary& vocabulary) {
  SpecialTokens& special = vocabulary.special;
  int32_t end_of_message = -1;
  const std::pair<std::string_view, int32_t*> ids[] = {
      {"tokenizer.ggml.bos_token_id", &special.begin},
      {"tokenizer.ggml.eos_token_id", &special.end},
      {"tokenizer.ggml.eot_token_id", &special.end_of_turn},
      {"tokenizer.ggml.eom_token_id", &end_of_message},
      {"tokenizer.ggml.unknown_token_id", &special.unknown},
      {"tokenizer.ggml.padding_token_id", &special.padding},
  };
  for (const auto& [key, id] : ids) {
    TAHMIN_RETURN_IF_ERROR(ReadId(file, vocabulary, key, *id));
  }
  special.add_begin = default_add_begin && special.begin >= 0;
  TAHMIN_RETURN_IF_ERROR(ReadFlag(file, "tokenizer.ggml.add_bos_token", special.add_begin));
  TAHMIN_RETURN_IF_ERROR(ReadFlag(file, "tokenizer.ggml.add_eos_token", special.add_end));
  if (special.add_begin && special.begin < 0) {
    return absl::InvalidArgumentError(
        "tokenizer.ggml.add_bos_token is true, but tokenizer.ggml.bos_token_id names no token");
  }
  if (special.add_end && special.end < 0) {
    return absl::InvalidArgumentError(
        "tokenizer.ggml.add_eos_token is true, but tokenizer.ggml.eos_token_id names no token");
  }
  return CollectEnds(file, vocabulary, end_of_message);
}

}  // namespace

absl::StatusOr<Vocabulary> Vocabulary::Load(const GgufFile& file, bool default_add_begin) {
  Vocabulary vocabulary;
  TAHMIN_RETURN_IF_ERROR(CopyTexts(file, vocabulary));
  TAHMIN_RETURN_IF_ERROR(ReadKinds(file, vocabulary));
  TAHMIN_RETURN_IF_ERROR(ReadSpecial(file, default_add_begin, vocabulary));
  for (int32_t token = 0; token < vocabulary.size(); ++token) {
    const bool always = vocabulary.kinds[token] == kUserDefined;
    if (!always && !vocabulary.IsControl(token)) continue;
    TAHMIN_RETURN_IF_ERROR(vocabulary.matcher.Add(vocabulary.texts[token], token, always));
  }
  return vocabulary;
}

int32_t Vocabulary::Find(std::string_view text) const {
  const auto entry = ids.find(text);
  return entry == ids.end() ? -1 : entry->second;
}

bool Vocabulary::IsControl(int32_t token) const {
  return Contains(token) && (kinds[token] == kControl || kinds[token] == kUnknown);
}

bool Vocabulary::IsPadding(int32_t token) const {
  if (!Contains(token)) return false;
  if (kinds[token] == kUnused) return true;
  // Files without types: the text that converters give to ids beyond the tokenizer's own.
  return kinds[token] == kNormal && texts[token] == fmt::format("[PAD{}]", token);
}

}  // namespace tahmin
