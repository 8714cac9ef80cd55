#include "tokenizer/vocabulary_tokenizer.h"

#include <limits>

#include "base/status_macros.h"
#include "fmt/format.h"

namespace tahmin {

absl::StatusOr<std::vector<int32_t>> VocabularyTokenizer::Tokenize(
    std::string_view text, const TokenizeOptions& options) const {
  // Positions inside a text are 32 bit numbers in the merge loops.
  constexpr size_t kMaxTextBytes = std::numeric_limits<int32_t>::max();
  if (text.size() > kMaxTextBytes) {
    return absl::ResourceExhaustedError(fmt::format(
        "expected a text of at most {} bytes to tokenize, found {}", kMaxTextBytes, text.size()));
  }
  const SpecialTokens& special = vocabulary_.special;
  std::vector<int32_t> tokens;
  tokens.reserve(text.size() / 4 + 2);
  if (options.add_special && special.add_begin) tokens.push_back(special.begin);
  size_t done = 0;
  while (done < text.size()) {
    const SpecialMatcher::Match match = vocabulary_.matcher.Find(text, done, options.parse_special);
    if (match.position > done) {
      TAHMIN_RETURN_IF_ERROR(TokenizeText(text.substr(done, match.position - done), tokens));
    }
    if (match.token >= 0) tokens.push_back(match.token);
    done = match.position + match.num_bytes;
  }
  if (options.add_special && special.add_end) tokens.push_back(special.end);
  return tokens;
}

std::string VocabularyTokenizer::TokenBytes(int32_t token, bool render_special) const {
  if (!vocabulary_.Contains(token)) return {};
  if (vocabulary_.IsControl(token)) {
    return render_special ? std::string(vocabulary_.texts[token]) : std::string();
  }
  if (vocabulary_.kinds[token] == Vocabulary::kUserDefined) {
    return std::string(vocabulary_.texts[token]);
  }
  return OrdinaryBytes(token);
}

std::string VocabularyTokenizer::Detokenize(const std::vector<int32_t>& tokens,
                                            bool render_special) const {
  std::string text;
  for (const int32_t token : tokens) text += TokenBytes(token, render_special);
  return text;
}

std::string_view VocabularyTokenizer::TokenText(int32_t token) const {
  return vocabulary_.Contains(token) ? vocabulary_.texts[token] : std::string_view();
}

int32_t VocabularyTokenizer::TokenType(int32_t token) const {
  return vocabulary_.Contains(token) ? vocabulary_.kinds[token] : 0;
}

}  // namespace tahmin
