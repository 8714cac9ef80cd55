#include "tokenizer/chat_template.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tokenizer/vocabulary_fixture.h"

namespace tahmin {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::vector<ChatMessage> kConversation = {
    {"system", "Be brief."}, {"user", "Hi!"}, {"assistant", "Hello."}, {"user", "2 + 2?"}};

std::string RenderBuiltIn(std::string_view name, bool add_generation_prompt) {
  const auto form = ChatTemplate::BuiltIn(name);
  EXPECT_TRUE(form.ok()) << form.status();
  const auto text = (*form)->Render(kConversation, add_generation_prompt);
  EXPECT_TRUE(text.ok()) << text.status();
  return *text;
}

TEST(BuiltInTemplate, ChatMl) {
  const std::string text =
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi!<|im_end|>\n"
      "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\n2 + 2?<|im_end|>\n";
  EXPECT_EQ(RenderBuiltIn("chatml", false), text);
  EXPECT_EQ(RenderBuiltIn("chatml", true), text + "<|im_start|>assistant\n");
}

TEST(BuiltInTemplate, Llama3) {
  EXPECT_EQ(RenderBuiltIn("llama3", true),
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi!<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\n2 + 2?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

TEST(BuiltInTemplate, Gemma) {
  EXPECT_EQ(RenderBuiltIn("gemma", true),
            "<bos><start_of_turn>user\nBe brief.\n\nHi!<end_of_turn>\n<start_of_turn>model\nHello."
            "<end_of_turn>\n<start_of_turn>user\n2 + 2?<end_of_turn>\n<start_of_turn>model\n");
}

TEST(BuiltInTemplate, Mistral) {
  EXPECT_EQ(RenderBuiltIn("mistral", true),
            "<s>[INST] Be brief.\n\nHi! [/INST] Hello.</s>[INST] 2 + 2? [/INST]");
}

TEST(BuiltInTemplate, UnknownNameAndWrongOrderAreErrors) {
  const absl::Status unknown = ChatTemplate::BuiltIn("vicuna").status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.message()), AllOf(HasSubstr("vicuna"), HasSubstr("chatml")));
  const auto mistral = ChatTemplate::BuiltIn("mistral");
  EXPECT_EQ((*mistral)->Render({{"user", "a"}, {"user", "b"}}, true).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*mistral)->Render({{"system", "a"}}, true).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ChatTemplate, B38_MissingTemplateNamesTheBuiltInForms) {
  GgufWriter writer;
  ByteVocabulary({}).WriteTo(writer);
  const GgufInMemory memory(writer);
  const absl::Status status = ChatTemplate::FromFile(*memory.file).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("chatml"), HasSubstr("mistral")));
}

#ifdef TAHMIN_WITH_JINJA2

absl::StatusOr<std::string> Render(const std::string& source,
                                   const std::vector<ChatMessage>& messages = kConversation,
                                   const ChatTemplateLimits& limits = {}) {
  const auto chat_template = ChatTemplate::FromJinja(source, "<s>", "</s>", limits);
  if (!chat_template.ok()) return chat_template.status();
  return (*chat_template)->Render(messages, true);
}

void ExpectError(const std::string& source, absl::StatusCode code, const std::string& word,
                 const ChatTemplateLimits& limits = {}) {
  const absl::StatusOr<std::string> text = Render(source, kConversation, limits);
  EXPECT_EQ(text.status().code(), code) << source << ": " << text.status();
  EXPECT_THAT(std::string(text.status().message()), HasSubstr(word));
}

TEST(JinjaTemplate, HasTheSettingsOfTransformers) {
  EXPECT_EQ(
      *Render("{% for m in messages %}\n  {% if loop.first %}\n[{{ m.role }}]\n  {% endif %}\n"
              "{% endfor %}\n{{ bos_token }}{{ eos_token }}"),
      "[system]\n<s></s>");
  EXPECT_EQ(*Render("{% for m in messages %}{% if loop.index > 2 %}{% break %}{% endif %}"
                    "{{ m['content'] }}|{% endfor %}"),
            "Be brief.|Hi!|");
  EXPECT_EQ(*Render("{{ {'k': '\xC3\xA9<'} | tojson }}"), "{\"k\": \"\xC3\xA9<\"}");
  EXPECT_EQ(*Render("{{ tools is none }} {{ add_generation_prompt }} {{ unset is defined }}"),
            "True True False");
  EXPECT_EQ(Render("{{ strftime_now('%Y') }}")->size(), 4u);
  EXPECT_EQ(*Render("{% generation %}x{% endgeneration %}"), "x");
}

TEST(JinjaTemplate, MessageBytesComeBackAsTheyWere) {
  const std::string bytes("a\0\xFF\xC3\xA9{{ x }}", 12);
  EXPECT_EQ(*Render("{{ messages[0].content }}", {{"user", bytes}}), bytes);
}

TEST(JinjaTemplate, B38_SyntaxErrorNamesTheLine) {
  ExpectError("a\nb\n{% if %}", absl::StatusCode::kInvalidArgument, "line 3");
}

TEST(JinjaTemplate, B38_UnknownFilterIsNamed) {
  ExpectError("a\n{{ messages | frobnicate }}", absl::StatusCode::kInvalidArgument, "frobnicate");
}

TEST(JinjaTemplate, RaiseExceptionGivesItsMessageAndLine) {
  ExpectError("\n{{ raise_exception('roles must alternate') }}", absl::StatusCode::kInvalidArgument,
              "line 2: roles must alternate");
}

TEST(JinjaTemplate, UndefinedValuesAndUnsafeAccessAreErrors) {
  ExpectError("{{ nothing.at_all }}", absl::StatusCode::kInvalidArgument, "nothing");
  ExpectError("{{ messages.append(1) }}", absl::StatusCode::kInvalidArgument, "line 1");
  ExpectError("{{ ''.__class__.__mro__[1].__subclasses__() }}", absl::StatusCode::kInvalidArgument,
              "line 1");
}

TEST(JinjaTemplate, B38_NestedLoopsEndAtTheTimeLimit) {
  const auto start = std::chrono::steady_clock::now();
  ExpectError("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
              absl::StatusCode::kResourceExhausted, "processor time", {.cpu_seconds = 0.5});
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 16.0);
}

TEST(JinjaTemplate, B38_HugeOutputEndsAtTheOutputLimit) {
  ExpectError("{% for a in range(99999) %}{{ 'x' * 1000 }}{% endfor %}",
              absl::StatusCode::kResourceExhausted, "output", {.output_bytes = 1 << 20});
}

// GCC says so with a macro, clang with a feature.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TAHMIN_MEMORY_IS_INSTRUMENTED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TAHMIN_MEMORY_IS_INSTRUMENTED 1
#endif
#endif
#ifdef TAHMIN_MEMORY_IS_INSTRUMENTED
constexpr bool kMemoryIsInstrumented = true;
#else
constexpr bool kMemoryIsInstrumented = false;
#endif

TEST(JinjaTemplate, B38_HugeMemoryEndsAtTheMemoryLimit) {
  if (kMemoryIsInstrumented) GTEST_SKIP() << "sanitizers map too much for a memory limit";
  ExpectError("{% set x = 'x' * 2000000000 %}{{ x | length }}",
              absl::StatusCode::kResourceExhausted, "memory");
}

TEST(JinjaTemplate, RendersWhileOtherThreadsAllocateAndRender) {
  // glibc takes the locks of its allocator, streams and loader before it forks, so the child finds
  // them free. libasan of GCC 12 does not: in a program of nothing but threads that allocate and
  // forked children that allocate, about one child in twenty stayed for ever in libasan's operator
  // new or delete (30 and 60 children: 2 each); without the sanitizer none of 300 did. So what
  // would fail there is the sanitizer's fork, not the renderer.
  if (kMemoryIsInstrumented) GTEST_SKIP() << "the sanitizers' allocator does not survive a fork";
  std::atomic<bool> stop = false;
  std::thread noise([&stop] {
    while (!stop) std::vector<std::string> strings(100, std::string(200, 'x'));
  });
  std::vector<std::thread> renderers;
  std::atomic<int> correct = 0;
  for (int i = 0; i < 3; ++i) {
    renderers.emplace_back([&correct, i] {
      const auto text = Render("{{ messages[0].content }}", {{"user", std::to_string(i)}});
      if (text.ok() && *text == std::to_string(i)) ++correct;
    });
  }
  for (std::thread& renderer : renderers) renderer.join();
  stop = true;
  noise.join();
  EXPECT_EQ(correct, 3);
}

TEST(JinjaTemplate, FromFileKnowsBeginAndEndTexts) {
  TestVocabulary vocabulary = ByteVocabulary({});
  vocabulary.begin = vocabulary.Add("<begin>", 3);
  vocabulary.end = vocabulary.Add("<end>", 3);
  GgufWriter writer;
  vocabulary.WriteTo(writer);
  writer.AddString("tokenizer.chat_template",
                   "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}");
  const GgufInMemory memory(writer);
  const auto chat_template = ChatTemplate::FromFile(*memory.file);
  ASSERT_TRUE(chat_template.ok()) << chat_template.status();
  EXPECT_EQ(*(*chat_template)->Render({{"user", "x"}}, false), "<begin>x<end>");
}

#else

TEST(JinjaTemplate, ABuildWithoutItSaysSo) {
  const absl::Status status = ChatTemplate::FromJinja("x", "", "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("chatml"));
}

#endif

}  // namespace
}  // namespace tahmin
