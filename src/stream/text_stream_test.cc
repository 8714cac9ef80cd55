#include "stream/text_stream.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace tahmin {
namespace {

std::string Assemble(std::string_view bytes, size_t piece) {
  Utf8Assembler assembler;
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += piece) {
    const std::string delta = assembler.Append(bytes.substr(i, piece));
    EXPECT_TRUE(IsValidUtf8(delta));
    text += delta;
  }
  return text + assembler.Finish();
}

struct Case {
  std::string bytes, text;
};

TEST(Utf8Assembler, B37ReplacesMaximalSubparts) {
  const std::string r = "\xEF\xBF\xBD";
  const Case cases[] = {
      {"caf\xC3\xA9 \xF0\x9F\x98\x80 \xE6\x97\xA5", "caf\xC3\xA9 \xF0\x9F\x98\x80 \xE6\x97\xA5"},
      {std::string("a\0b", 3), std::string("a\0b", 3)},
      {"\xEF\xBF\xBD", r},                      // a genuine U+FFFD
      {"\x80", r},                              // a lone continuation
      {"\xC0\xAF", r + r},                      // overlong: C0 begins nothing
      {"\xE0\x80\xAF", r + r + r},              // overlong, three bytes
      {"\xED\xA0\x80", r + r + r},              // a surrogate
      {"\xF4\x91\x92\x93", r + r + r + r},      // beyond U+10FFFF
      {"\xF1\x80\x80\xE1\x80\xC2", r + r + r},  // Unicode's example (table 3-11)
      {"\xF0\x9F\x98"
       "a",
       r + "a"},  // three bytes of four, then text
      {"\xF0\x9F\xF0\x9F\x98\x80", r + "\xF0\x9F\x98\x80"},
      {"x\xE6\x97", "x" + r},  // cut at the end: one replacement
      {"\xF5\xFF", r + r},
  };
  for (const Case& c : cases) {
    for (const size_t piece : {1u, 2u, 3u, 100u}) EXPECT_EQ(Assemble(c.bytes, piece), c.text);
  }
}

TEST(Utf8Assembler, B37KeepsBackAnUnfinishedCharacterOnly) {
  Utf8Assembler assembler;
  EXPECT_EQ(assembler.Append("a\xF0\x9F"), "a");
  EXPECT_TRUE(assembler.has_pending());
  EXPECT_TRUE(assembler.WouldContinue('\x98'));
  EXPECT_FALSE(assembler.WouldContinue('b'));
  EXPECT_EQ(assembler.Append("\x98"), "");
  EXPECT_EQ(assembler.Append("\x80"
                             "b"),
            "\xF0\x9F\x98\x80"
            "b");
  EXPECT_EQ(assembler.Finish(), "");
}

TEST(Utf8Assembler, B37TextDoesNotDependOnTheCuts) {
  std::mt19937 random(1);
  const std::string alphabet("a\xC3\xA9\xE0\xA0\xED\x9F\x80\xF0\x9F\x98\xF4\xBF\xFF\0", 16);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (size_t i = random() % 30; i > 0; --i) bytes += alphabet[random() % alphabet.size()];
    const std::string whole = Assemble(bytes, 1000);
    EXPECT_TRUE(IsValidUtf8(whole));
    for (const size_t piece : {1u, 2u, 5u}) ASSERT_EQ(Assemble(bytes, piece), whole);
  }
}

TEST(IsValidUtf8, RefusesUnfinishedAndInvalid) {
  EXPECT_TRUE(IsValidUtf8(""));
  EXPECT_TRUE(IsValidUtf8("\xF4\x8F\xBF\xBF"));
  EXPECT_FALSE(IsValidUtf8("\xE6\x97"));
  EXPECT_FALSE(IsValidUtf8("a\xED\xBF\xBF"));
}

}  // namespace
}  // namespace tahmin
