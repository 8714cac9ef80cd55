#include "tests/data/tiny_vocabulary.h"

#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tests/data/tiny_model.h"

namespace tahmin {
namespace {

constexpr int32_t kNormal = 1;
constexpr int32_t kControl = 3;
constexpr int32_t kUnused = 5;

std::string EncodeUtf8(uint32_t code_point) {
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xC0 | (code_point >> 6)), static_cast<char>(0x80 | (code_point & 63))};
}

bool StandsForItself(uint32_t byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

// Both halves as plain text, in the order of their rank; each is a byte or an earlier merge.
const std::vector<std::pair<std::string, std::string>>& Merges() {
  static const auto* merges = new std::vector<std::pair<std::string, std::string>>{
      {" ", "t"},   {" ", "a"},  {"h", "e"}, {"i", "n"}, {"r", "e"},   {"o", "n"},
      {" t", "he"}, {"e", "r"},  {" ", "s"}, {"a", "t"}, {" ", "w"},   {" ", "o"},
      {"e", "n"},   {" ", "c"},  {"i", "t"}, {"i", "s"}, {"a", "n"},   {"o", "r"},
      {"e", "s"},   {" ", "b"},  {"e", "d"}, {" ", "f"}, {"in", "g"},  {" ", "p"},
      {"o", "u"},   {" a", "n"}, {"a", "l"}, {"a", "r"}, {" t", "o"},  {" ", "m"},
      {" o", "f"},  {" ", "in"}, {" ", "d"}, {" ", "h"}, {" an", "d"}, {" ", " "}};
  return *merges;
}

std::string Spelling(const std::string& text) {
  std::string spelled;
  for (char c : text) spelled += ByteSpelling(static_cast<uint8_t>(c));
  return spelled;
}

constexpr const char* kChatTemplate =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ "
    "'<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' "
    "}}{% endif %}";

}  // namespace

std::string ByteSpelling(uint8_t byte) {
  if (StandsForItself(byte)) return EncodeUtf8(byte);
  uint32_t code_point = 0x100;
  for (uint32_t other = 0; other < byte; ++other) code_point += StandsForItself(other) ? 0 : 1;
  return EncodeUtf8(code_point);
}

void AddTinyVocabulary(GgufWriter& writer, const std::string& pre, int32_t vocab_size) {
  std::vector<std::string> tokens = {"<|begin|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  std::vector<int32_t> types(tokens.size(), kControl);
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(ByteSpelling(static_cast<uint8_t>(byte)));
  }
  std::vector<std::string> merges;
  for (const auto& [left, right] : Merges()) {
    merges.push_back(Spelling(left) + " " + Spelling(right));
    tokens.push_back(Spelling(left + right));
  }
  types.resize(tokens.size(), kNormal);
  TAHMIN_CHECK(vocab_size >= 300);
  for (int32_t i = static_cast<int32_t>(tokens.size()); i < vocab_size; ++i) {
    tokens.push_back("[PAD" + std::to_string(i) + "]");
    types.push_back(kUnused);
  }
  writer.AddString("tokenizer.ggml.model", "gpt2");
  writer.AddString("tokenizer.ggml.pre", pre);
  writer.AddStringArray("tokenizer.ggml.tokens", tokens);
  writer.AddInt32Array("tokenizer.ggml.token_type", types);
  writer.AddStringArray("tokenizer.ggml.merges", merges);
  writer.AddUint32("tokenizer.ggml.bos_token_id", TinyVocabulary::kBegin);
  writer.AddUint32("tokenizer.ggml.eos_token_id", TinyVocabulary::kEnd);
  writer.AddUint32("tokenizer.ggml.eot_token_id", TinyVocabulary::kTurnEnd);
  writer.AddBool("tokenizer.ggml.add_bos_token", false);
  writer.AddString("tokenizer.chat_template", kChatTemplate);
}

}  // namespace tahmin
