// Token ids of real models against the reference ids that lie beside the checkout, and the prompts
// that their own chat templates make. Skipped, visibly, where the model or the data is missing.
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace tahmin {
namespace {

constexpr char kSmolLm[] = "smollm2-135m-instruct-q4_1.gguf";
constexpr char kQwenSmall[] = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf";
constexpr char kQwenLarge[] = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf";

std::string ModelPath(const std::string& name) {
  const char* folder = std::getenv("TAHMIN_MODELS");
  const char* home = std::getenv("HOME");
  const std::string base =
      folder != nullptr ? folder : std::string(home != nullptr ? home : ".") + "/.cache/tahmin";
  return base + "/" + name;
}

bool Exists(const std::string& path) { return std::ifstream(path).good(); }

#define SKIP_WITHOUT(path) \
  if (!Exists(path)) GTEST_SKIP() << "missing: " << path

std::unique_ptr<GgufFile> OpenModel(const std::string& path) {
  absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? std::move(file).value() : nullptr;
}

std::unique_ptr<Tokenizer> LoadTokenizer(const std::string& path) {
  const std::unique_ptr<GgufFile> file = OpenModel(path);
  if (file == nullptr) return nullptr;
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Create(*file);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? std::move(tokenizer).value() : nullptr;
}

void ExpectGoldenIds(const std::string& model, const std::string& golden) {
  const std::string model_path = ModelPath(model);
  const std::string golden_path = std::string(TAHMIN_GOLDEN_DIR) + "/" + golden;
  SKIP_WITHOUT(model_path);
  SKIP_WITHOUT(golden_path);
  const std::unique_ptr<Tokenizer> tokenizer = LoadTokenizer(model_path);
  ASSERT_NE(tokenizer, nullptr);
  std::ifstream stream(golden_path);
  const nlohmann::json cases = nlohmann::json::parse(stream);
  ASSERT_GT(cases.size(), 100u);
  for (const nlohmann::json& entry : cases) {
    const std::string text = entry["text"];
    const absl::StatusOr<std::vector<int32_t>> ids = tokenizer->Tokenize(text, {});
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, entry["ids"].get<std::vector<int32_t>>()) << text;
    EXPECT_EQ(tokenizer->Detokenize(*ids, true), text);
  }
}

TEST(TokenizerGolden, B36_Qwen2SmallIds) {
  ExpectGoldenIds(kQwenSmall, "tokenizer-qwen2.5-coder.json");
}
TEST(TokenizerGolden, B36_Qwen2LargeIds) {
  ExpectGoldenIds(kQwenLarge, "tokenizer-qwen2.5-coder.json");
}
TEST(TokenizerGolden, B36_SmolLmIds) { ExpectGoldenIds(kSmolLm, "tokenizer-smollm2-135m.json"); }

TEST(TokenizerGolden, EndOfGenerationIds) {
  SKIP_WITHOUT(ModelPath(kQwenSmall));
  SKIP_WITHOUT(ModelPath(kSmolLm));
  const auto qwen = LoadTokenizer(ModelPath(kQwenSmall));
  const auto smol = LoadTokenizer(ModelPath(kSmolLm));
  EXPECT_EQ(qwen->special_tokens().end_of_generation, (std::vector<int32_t>{151643, 151645}));
  EXPECT_EQ(smol->special_tokens().end_of_generation, (std::vector<int32_t>{0, 2}));
  EXPECT_FALSE(qwen->special_tokens().add_begin);
  EXPECT_FALSE(smol->special_tokens().add_begin);
  EXPECT_TRUE(qwen->IsPadding(151935));
  EXPECT_FALSE(qwen->IsPadding(151664));
}

TEST(TokenizerGolden, B35_TheQwenPairFitsAndSmolLmDoesNot) {
  SKIP_WITHOUT(ModelPath(kQwenSmall));
  SKIP_WITHOUT(ModelPath(kQwenLarge));
  SKIP_WITHOUT(ModelPath(kSmolLm));
  const auto target = LoadTokenizer(ModelPath(kQwenLarge));
  EXPECT_TRUE(CheckSameVocabulary(*target, *LoadTokenizer(ModelPath(kQwenSmall))).ok());
  const absl::Status other = CheckSameVocabulary(*target, *LoadTokenizer(ModelPath(kSmolLm)));
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
}

TEST(TokenizerGolden, MegabytesOfTextTakeFractionsOfASecond) {
  SKIP_WITHOUT(ModelPath(kQwenSmall));
  const auto tokenizer = LoadTokenizer(ModelPath(kQwenSmall));
  std::string text;
  while (text.size() < (size_t{4} << 20)) {
    text +=
        "for (int row = 0; row < 1024; ++row) {\n    sum += weights[row] * inputs[row];\n}\n"
        "It was the best of times, it wasn't the worst of times: 1859. \n\n";
  }
  const auto start = std::chrono::steady_clock::now();
  const auto ids = tokenizer->Tokenize(text, {});
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(tokenizer->Detokenize(*ids, true), text);
  RecordProperty("megabytes_per_second", std::to_string(text.size() / 1e6 / seconds.count()));
  // A tenth of what is usual, for busy machines and sanitizers.
  EXPECT_LT(seconds.count(), 8.0);
}

const std::vector<ChatMessage> kConversation = {
    {"system", "Be brief."}, {"user", "Hi!"}, {"assistant", "Hello."}, {"user", "2 + 2?"}};

void ExpectRendered(const std::string& model, const std::vector<ChatMessage>& messages,
                    bool add_generation_prompt, const std::string& expected) {
  const std::string path = ModelPath(model);
  SKIP_WITHOUT(path);
  const std::unique_ptr<GgufFile> file = OpenModel(path);
  ASSERT_NE(file, nullptr);
  const auto chat_template = ChatTemplate::FromFile(*file);
  if (chat_template.status().code() == absl::StatusCode::kFailedPrecondition) {
    GTEST_SKIP() << chat_template.status();
  }
  ASSERT_TRUE(chat_template.ok()) << chat_template.status();
  const absl::StatusOr<std::string> text =
      (*chat_template)->Render(messages, add_generation_prompt);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, expected);
}

const std::string kPlainChatMl =
    "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi!<|im_end|>\n"
    "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\n2 + 2?<|im_end|>\n";
const std::string kGenerationPrompt = "<|im_start|>assistant\n";

class ChatTemplateGolden : public testing::TestWithParam<const char*> {};

TEST_P(ChatTemplateGolden, WholeConversation) {
  ExpectRendered(GetParam(), kConversation, false, kPlainChatMl);
}
TEST_P(ChatTemplateGolden, WholeConversationWithGenerationPrompt) {
  ExpectRendered(GetParam(), kConversation, true, kPlainChatMl + kGenerationPrompt);
}
TEST_P(ChatTemplateGolden, AddsTheModelsOwnSystemPrompt) {
  const bool is_qwen = std::string(GetParam()).starts_with("qwen");
  const std::string system =
      is_qwen ? "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
              : "You are a helpful AI assistant named SmolLM, trained by Hugging Face";
  ExpectRendered(GetParam(), {{"user", "Hi!"}}, true,
                 "<|im_start|>system\n" + system +
                     "<|im_end|>\n<|im_start|>user\nHi!<|im_end|>\n<|im_start|>assistant\n");
}

INSTANTIATE_TEST_SUITE_P(Models, ChatTemplateGolden,
                         testing::Values(kSmolLm, kQwenSmall, kQwenLarge), [](const auto& info) {
                           return std::string(info.index == 0   ? "SmolLm"
                                              : info.index == 1 ? "QwenSmall"
                                                                : "QwenLarge");
                         });

}  // namespace
}  // namespace tahmin
