#include "tokenizer/utf8.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "tokenizer/byte_alphabet.h"

namespace tahmin {
namespace {

TEST(Utf8, CharactersOfEveryLength) {
  EXPECT_EQ(Utf8CharacterBytes("a"), 1u);
  EXPECT_EQ(Utf8CharacterBytes(std::string_view("\0", 1)), 1u);
  EXPECT_EQ(Utf8CharacterBytes("\xC3\xA9x"), 2u);
  EXPECT_EQ(Utf8CharacterBytes("\xE2\x82\xAC"), 3u);
  EXPECT_EQ(Utf8CharacterBytes("\xED\x9F\xBF"), 3u);      // U+D7FF
  EXPECT_EQ(Utf8CharacterBytes("\xF4\x8F\xBF\xBF"), 4u);  // U+10FFFF
}

TEST(Utf8, B37_WhatIsNotUtf8) {
  for (const char* bytes :
       {"", "\x80", "\xC3", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\xE2\x28\xA1"}) {
    EXPECT_EQ(Utf8CharacterBytes(bytes), 0u) << bytes;
  }
}

TEST(Utf8, Prefixes) {
  EXPECT_EQ(ValidUtf8Prefix("a\xC3\xA9\xFF"
                            "b"),
            3u);
  EXPECT_EQ(InvalidUtf8Prefix("\xFF\x80"
                              "b"),
            2u);
  EXPECT_EQ(InvalidUtf8Prefix("b"), 0u);
}

TEST(ByteAlphabet, EveryByteComesBack) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  const std::string spelled = EncodeByteAlphabet(bytes);
  EXPECT_EQ(ValidUtf8Prefix(spelled), spelled.size());
  EXPECT_EQ(DecodeByteAlphabet(spelled), bytes);
}

TEST(ByteAlphabet, KnownStandInsAndStrangers) {
  EXPECT_EQ(EncodeByteAlphabet(" \n!\x7F\xAD"), "\xC4\xA0\xC4\x8A!\xC4\xA1\xC5\x83");
  EXPECT_EQ(DecodeByteAlphabet("\xE2\x82\xAC\xFF "), "\xE2\x82\xAC\xFF ");
}

}  // namespace
}  // namespace tahmin
