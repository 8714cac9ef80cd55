#include "tokenizer/pre_tokenizer.h"

#include <cstdint>
#include <span>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "tokenizer/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace tahmin {
namespace {

// White space as Unicode's White_Space property has it. PCRE2's own \s also takes U+180E.
#define TAHMIN_SPACE                                                                          \
  "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}" \
  "\\x{205F}\\x{3000}"
#define TAHMIN_S "[" TAHMIN_SPACE "]"

// Contractions in any case, spelled out: caseless matching would also take U+017F for an s.
#define TAHMIN_CONTRACTION "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
#define TAHMIN_TAIL                                                               \
  "| ?[^" TAHMIN_SPACE "\\p{L}\\p{N}]+[\\r\\n]*|" TAHMIN_S "*[\\r\\n]+|" TAHMIN_S \
  "+(?!"                                                                          \
  "[^" TAHMIN_SPACE "])|" TAHMIN_S "+"

constexpr const char kQwen2[] =
    TAHMIN_CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" TAHMIN_TAIL;
constexpr const char kLlama3[] =
    TAHMIN_CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" TAHMIN_TAIL;
constexpr const char kGpt2[] = "'(?:[stmd]|re|ve|ll)| ?\\p{L}+| ?\\p{N}+| ?[^" TAHMIN_SPACE
                               "\\p{L}\\p{N}]+|" TAHMIN_S "+(?![^" TAHMIN_SPACE "])|" TAHMIN_S "+";
constexpr const char kDigit[] = "\\p{N}";
constexpr const char kLineBreak[] = "[\\r\\n]";
constexpr const char kFalconSymbols[] = "[\\p{P}$+<=>\\^~|`]+";
constexpr const char kThreeDigits[] = "[0-9][0-9][0-9]";
constexpr const char kDeepseekCjk[] = "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+";
constexpr const char kDeepseekCoderLetters[] = TAHMIN_S "?\\p{L}+";
constexpr const char kDeepseekCoderSymbols[] = TAHMIN_S "?\\p{P}+";
// The cased letters that the model's own table lists.
constexpr const char kDeepseekLetters[] = TAHMIN_S
    "?[A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{"
    "293}"
    "\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}"
    "\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}"
    "\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}"
    "\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}"
    "\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}"
    "\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}"
    "\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}"
    "\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}"
    "\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}"
    "\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}"
    "\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}"
    "\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"
    "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}"
    "\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}"
    "\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}"
    "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}]+";
constexpr const char kDeepseekSymbols[] = TAHMIN_S
    "?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+";
// "White space up to the end". Only the start of a run is tried, or runs inside a text would cost
// their length squared; the leftmost match is the same.
constexpr const char kDeepseekTrailingSpace[] = "(?<!" TAHMIN_S ")" TAHMIN_S "++\\z";
constexpr const char kNumber[] = "\\p{N}+";

using Expressions = std::span<const char* const>;
constexpr const char* kQwen2List[] = {kQwen2};
constexpr const char* kLlama3List[] = {kLlama3};
constexpr const char* kGpt2List[] = {kGpt2};
constexpr const char* kDigitsThenGpt2[] = {kDigit, kGpt2};
constexpr const char* kFalconList[] = {kFalconSymbols, kGpt2, kThreeDigits};
constexpr const char* kDeepseekLlmList[] = {
    kLineBreak, kDeepseekLetters, kDeepseekSymbols, kDeepseekTrailingSpace, kDeepseekCjk, kNumber};
constexpr const char* kDeepseekCoderList[] = {kLineBreak, kDeepseekCoderLetters,
                                              kDeepseekCoderSymbols, kDeepseekCjk, kDigit};

struct Row {
  std::string_view name;
  Expressions expressions;
  bool ignore_merges = false;
};

// Every name, with the aliases that converters write.
constexpr Row kRows[] = {
    {"qwen2", kQwen2List},
    {"deepseek-r1-qwen", kQwen2List},
    {"llama-bpe", kLlama3List, true},
    {"llama3", kLlama3List, true},
    {"llama-v3", kLlama3List, true},
    {"gpt-2", kGpt2List},
    {"gpt2", kGpt2List},
    {"smollm", kDigitsThenGpt2},
    {"starcoder", kDigitsThenGpt2},
    {"refact", kDigitsThenGpt2},
    {"command-r", kDigitsThenGpt2},
    {"falcon", kFalconList},
    {"deepseek-llm", kDeepseekLlmList},
    {"deepseek-coder", kDeepseekCoderList},
};

struct CodeDeleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct ContextDeleter {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct MatchDeleter {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
using Code = std::unique_ptr<pcre2_code, CodeDeleter>;
using Match = std::unique_ptr<pcre2_match_data, MatchDeleter>;

absl::StatusOr<Code> Compile(const char* expression) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression), PCRE2_ZERO_TERMINATED,
                          PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
  if (code == nullptr) {
    return absl::InternalError(fmt::format("PCRE2 refused the expression '{}' at {}: error {}",
                                           expression, offset, error));
  }
  // Without a just-in-time compiler the interpreter gives the same matches, slower.
  (void)pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return code;
}

}  // namespace

struct PreTokenizer::State {
  std::vector<Code> codes;
  std::unique_ptr<pcre2_match_context, ContextDeleter> context;
  bool ignore_merges = false;

  // Cuts one piece of valid UTF-8 by one expression.
  absl::Status SplitPiece(const pcre2_code* code, pcre2_match_data* match, std::string_view piece,
                          std::vector<std::string_view>& out) const;
  absl::Status SplitValid(std::string_view text, std::vector<std::string_view>& pieces) const;
};

absl::Status PreTokenizer::State::SplitPiece(const pcre2_code* code, pcre2_match_data* match,
                                             std::string_view piece,
                                             std::vector<std::string_view>& out) const {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(piece.data());
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match);
  size_t done = 0;
  while (done < piece.size()) {
    const int found = pcre2_match(code, subject, piece.size(), done,
                                  PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match, context.get());
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      return absl::ResourceExhaustedError(
          fmt::format("pre-tokenizer: a stretch of {} bytes is too much for the matcher (PCRE2 "
                      "error {})",
                      piece.size(), found));
    }
    if (bounds[0] > done) out.push_back(piece.substr(done, bounds[0] - done));
    out.push_back(piece.substr(bounds[0], bounds[1] - bounds[0]));
    done = bounds[1];
  }
  if (done < piece.size()) out.push_back(piece.substr(done));
  return absl::OkStatus();
}

absl::Status PreTokenizer::State::SplitValid(std::string_view text,
                                             std::vector<std::string_view>& pieces) const {
  std::vector<std::string_view> before = {text};
  std::vector<std::string_view> after;
  for (const Code& code : codes) {
    const Match match(pcre2_match_data_create_from_pattern(code.get(), nullptr));
    if (match == nullptr) return absl::ResourceExhaustedError("pre-tokenizer: out of memory");
    after.clear();
    for (const std::string_view piece : before) {
      TAHMIN_RETURN_IF_ERROR(SplitPiece(code.get(), match.get(), piece, after));
    }
    before.swap(after);
  }
  pieces.insert(pieces.end(), before.begin(), before.end());
  return absl::OkStatus();
}

PreTokenizer::PreTokenizer() : state_(std::make_unique<State>()) {}
PreTokenizer::~PreTokenizer() = default;

absl::StatusOr<std::unique_ptr<PreTokenizer>> PreTokenizer::Create(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name != name) continue;
    std::unique_ptr<PreTokenizer> result(new PreTokenizer());
    State& state = *result->state_;
    state.ignore_merges = row.ignore_merges;
    state.context.reset(pcre2_match_context_create(nullptr));
    if (state.context == nullptr) {
      return absl::ResourceExhaustedError("pre-tokenizer: out of memory");
    }
    for (const char* expression : row.expressions) {
      TAHMIN_ASSIGN_OR_RETURN(Code code, Compile(expression));
      state.codes.push_back(std::move(code));
    }
    return result;
  }
  std::vector<std::string_view> known;
  for (const Row& row : kRows) known.push_back(row.name);
  return absl::InvalidArgumentError(fmt::format("unknown pre-tokenizer '{}'; this build knows: {}",
                                                name, fmt::join(known, ", ")));
}

absl::Status PreTokenizer::Split(std::string_view text,
                                 std::vector<std::string_view>& pieces) const {
  // The matcher may only see valid UTF-8, checked once here: its own check would run over the whole
  // rest at every match.
  size_t done = 0;
  while (done < text.size()) {
    const std::string_view rest = text.substr(done);
    const size_t valid = ValidUtf8Prefix(rest);
    if (valid > 0) TAHMIN_RETURN_IF_ERROR(state_->SplitValid(rest.substr(0, valid), pieces));
    const size_t invalid = InvalidUtf8Prefix(rest.substr(valid));
    if (invalid > 0) pieces.push_back(rest.substr(valid, invalid));
    done += valid + invalid;
  }
  return absl::OkStatus();
}

bool PreTokenizer::ignore_merges() const { return state_->ignore_merges; }

}  // namespace tahmin
