#include "bench/control/text_record.h"

#include <cmath>
#include <utility>

#include "base/file_contents.h"
#include "base/status_macros.h"
#include "bench/control/json_lines.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace tahmin::bench {
namespace {

using nlohmann::json;

constexpr char kFormat[] = "tahmin-text-record";
constexpr int32_t kVersion = 1;

// Four digits are more than a guess is good for, and half of the file.
double Rounded(float value) { return std::round(static_cast<double>(value) * 1e4) / 1e4; }

// A file's name may be any bytes.
std::string Dump(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

bool IsCount(const json& value) {
  return value.is_number_integer() && value.get<int64_t>() >= 1 && value.get<int64_t>() < 1 << 30;
}

bool IsText(const json& object, const char* key) {
  return object.contains(key) && object[key].is_string();
}

// Reads one line of the file; the errors of all its parts say which line it was.
class LineReader {
 public:
  explicit LineReader(const JsonLine& line) : line_(line) {}

  absl::StatusOr<RecordHeader> Header() const;
  absl::StatusOr<TextRecord> Text(const RecordHeader& header);

 private:
  absl::Status Expected(std::string_view what) const {
    return absl::InvalidArgumentError(fmt::format("line {}: expected {}", line_.number, what));
  }
  bool IsId(const json& value) const {
    return value.is_number_integer() && value.get<int64_t>() >= 0 &&
           value.get<int64_t>() < vocab_size_;
  }
  // `key`: a list of at least `least` token ids.
  absl::StatusOr<std::vector<int32_t>> Ids(const char* key, size_t least) const;
  // `key`: `count` lists of at least `least` pairs of a token id and a number.
  absl::StatusOr<std::vector<std::vector<TokenLogprob>>> Pairs(const char* key, size_t count,
                                                               size_t least) const;

  const JsonLine& line_;
  int32_t vocab_size_ = 0;
};

absl::StatusOr<RecordHeader> LineReader::Header() const {
  const json& object = line_.object;
  if (!IsText(object, "format") || object["format"] != kFormat) {
    return Expected(fmt::format("\"format\": \"{}\"", kFormat));
  }
  if (!object.contains("version") || object["version"] != kVersion) {
    return Expected(fmt::format("\"version\": {}", kVersion));
  }
  if (!IsText(object, "target") || !IsText(object, "draft")) {
    return Expected("the names of \"target\" and \"draft\"");
  }
  for (const char* key : {"vocab_size", "max_tokens"}) {
    if (!object.contains(key) || !IsCount(object[key])) {
      return Expected(fmt::format("\"{}\" of at least 1", key));
    }
  }
  return RecordHeader{.target = object["target"],
                      .draft = object["draft"],
                      .vocab_size = object["vocab_size"],
                      .max_tokens = object["max_tokens"]};
}

absl::StatusOr<std::vector<int32_t>> LineReader::Ids(const char* key, size_t least) const {
  const json& object = line_.object;
  const absl::Status error = Expected(
      fmt::format("\"{}\": at least {} token ids from 0 to {}", key, least, vocab_size_ - 1));
  if (!object.contains(key) || !object[key].is_array() || object[key].size() < least) return error;
  std::vector<int32_t> ids;
  for (const json& id : object[key]) {
    if (!IsId(id)) return error;
    ids.push_back(id);
  }
  return ids;
}

absl::StatusOr<std::vector<std::vector<TokenLogprob>>> LineReader::Pairs(const char* key,
                                                                         size_t count,
                                                                         size_t least) const {
  const json& object = line_.object;
  const absl::Status error = Expected(fmt::format(
      "\"{}\": {} lists, one behind each output token but the last, of at least {} pairs of a "
      "token id from 0 to {} and a number",
      key, count, least, vocab_size_ - 1));
  if (!object.contains(key) || !object[key].is_array() || object[key].size() != count) return error;
  std::vector<std::vector<TokenLogprob>> lists;
  for (const json& list : object[key]) {
    if (!list.is_array() || list.size() % 2 != 0 || list.size() < 2 * least) return error;
    std::vector<TokenLogprob>& pairs = lists.emplace_back();
    for (size_t i = 0; i < list.size(); i += 2) {
      if (!IsId(list[i]) || !list[i + 1].is_number()) return error;
      pairs.push_back({.token = list[i], .logprob = list[i + 1]});
    }
  }
  return lists;
}

RecordedDraft ToDraft(const std::vector<TokenLogprob>& pairs) {
  RecordedDraft draft;
  draft.first = {pairs[0].token, pairs[0].logprob};
  draft.second = {pairs[1].token, pairs[1].logprob};
  for (size_t i = 2; i < pairs.size(); ++i) {
    draft.wrong_path.push_back({pairs[i].token, pairs[i].logprob});
  }
  return draft;
}

absl::StatusOr<TextRecord> LineReader::Text(const RecordHeader& header) {
  vocab_size_ = header.vocab_size;
  if (!IsText(line_.object, "id") || !IsText(line_.object, "group")) {
    return Expected("a text with \"id\" and \"group\"");
  }
  TextRecord text{.id = line_.object["id"], .group = line_.object["group"]};
  TAHMIN_ASSIGN_OR_RETURN(text.prompt, Ids("prompt", 1));
  TAHMIN_ASSIGN_OR_RETURN(text.output, Ids("output", 2));
  if (text.output.size() > static_cast<size_t>(header.max_tokens)) {
    return Expected(fmt::format("\"output\": at most {} tokens, found {}", header.max_tokens,
                                text.output.size()));
  }
  const size_t count = text.output.size() - 1;
  TAHMIN_ASSIGN_OR_RETURN(text.rows, Pairs("rows", count, 1));
  for (size_t i = 0; i < count; ++i) {
    if (text.rows[i].front().token == text.output[i + 1]) continue;
    return Expected(fmt::format("the next output token, {}, in front of row {}; found {}",
                                text.output[i + 1], i, text.rows[i].front().token));
  }
  if (header.draft.empty()) return text;
  TAHMIN_ASSIGN_OR_RETURN(const auto drafts, Pairs("drafts", count, 2));
  for (const auto& pairs : drafts) text.drafts.push_back(ToDraft(pairs));
  return text;
}

json ToPairs(const std::vector<TokenLogprob>& row) {
  json list = json::array();
  for (const TokenLogprob& entry : row) {
    list.push_back(entry.token);
    list.push_back(Rounded(entry.logprob));
  }
  return list;
}

json ToPairs(const RecordedDraft& draft) {
  json list = json::array();
  const auto add = [&list](const DraftGuess& guess) {
    list.push_back(guess.token);
    list.push_back(Rounded(guess.confidence));
  };
  add(draft.first);
  add(draft.second);
  for (const DraftGuess& guess : draft.wrong_path) add(guess);
  return list;
}

}  // namespace

std::string ToLine(const RecordHeader& header) {
  const json object = {{"format", kFormat},
                       {"version", kVersion},
                       {"target", header.target},
                       {"draft", header.draft},
                       {"vocab_size", header.vocab_size},
                       {"max_tokens", header.max_tokens}};
  return Dump(object);
}

std::string ToLine(const TextRecord& text) {
  json object = {{"id", text.id}, {"group", text.group}};
  object["prompt"] = text.prompt;
  object["output"] = text.output;
  object["rows"] = json::array();
  for (const auto& row : text.rows) object["rows"].push_back(ToPairs(row));
  if (!text.drafts.empty()) object["drafts"] = json::array();
  for (const RecordedDraft& draft : text.drafts) object["drafts"].push_back(ToPairs(draft));
  return Dump(object);
}

absl::StatusOr<RecordedTexts> ParseTextRecords(std::string_view file) {
  TAHMIN_ASSIGN_OR_RETURN(const std::vector<JsonLine> lines, ParseJsonLines(file));
  if (lines.empty()) return absl::InvalidArgumentError("line 1: expected a record, found nothing");
  RecordedTexts record;
  TAHMIN_ASSIGN_OR_RETURN(record.header, LineReader(lines.front()).Header());
  for (size_t i = 1; i < lines.size(); ++i) {
    TAHMIN_ASSIGN_OR_RETURN(TextRecord text, LineReader(lines[i]).Text(record.header));
    record.texts.push_back(std::move(text));
  }
  if (record.texts.empty()) return absl::InvalidArgumentError("line 2: expected a text");
  return record;
}

absl::StatusOr<RecordedTexts> ReadTextRecords(const std::string& path) {
  TAHMIN_ASSIGN_OR_RETURN(const std::string file, ReadWholeFile(path));
  absl::StatusOr<RecordedTexts> record = ParseTextRecords(file);
  if (!record.ok()) return WithPath(record.status(), path);
  return record;
}

}  // namespace tahmin::bench
