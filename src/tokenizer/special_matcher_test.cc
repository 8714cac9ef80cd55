#include "tokenizer/special_matcher.h"

#include "gtest/gtest.h"

namespace tahmin {
namespace {

TEST(SpecialMatcher, LeftmostThenLongest) {
  SpecialMatcher matcher;
  ASSERT_TRUE(matcher.Add("<a>", 1, false).ok());
  ASSERT_TRUE(matcher.Add("<a>b", 2, false).ok());
  ASSERT_TRUE(matcher.Add("a>bcd", 3, false).ok());
  const SpecialMatcher::Match match = matcher.Find("x<a>bcd", 0, true);
  EXPECT_EQ(match.token, 2);
  EXPECT_EQ(match.position, 1u);
  EXPECT_EQ(match.num_bytes, 4u);
  EXPECT_EQ(matcher.Find("x<a>bcd", 2, true).token, 3);
}

TEST(SpecialMatcher, AControlTextDoesNotHideAUserDefinedOne) {
  SpecialMatcher matcher;
  ASSERT_TRUE(matcher.Add("<tool", 1, true).ok());
  ASSERT_TRUE(matcher.Add("<tool>", 2, false).ok());
  EXPECT_EQ(matcher.Find("<tool>", 0, true).token, 2);
  EXPECT_EQ(matcher.Find("<tool>", 0, false).token, 1);
}

TEST(SpecialMatcher, NoMatchPointsToTheEnd) {
  SpecialMatcher matcher;
  ASSERT_TRUE(matcher.Add("", 7, true).ok());
  ASSERT_TRUE(matcher.Add("<|x|>", 1, true).ok());
  const SpecialMatcher::Match match = matcher.Find("<|x|<|x", 0, true);
  EXPECT_EQ(match.token, -1);
  EXPECT_EQ(match.position, 7u);
  EXPECT_EQ(match.num_bytes, 0u);
}

TEST(SpecialMatcher, TheFirstOfTwoEqualTextsStaysAndLongOnesAreRefused) {
  SpecialMatcher matcher;
  ASSERT_TRUE(matcher.Add("<x>", 1, true).ok());
  ASSERT_TRUE(matcher.Add("<x>", 2, true).ok());
  EXPECT_EQ(matcher.Find("<x>", 0, true).token, 1);
  EXPECT_FALSE(matcher.Add(std::string(SpecialMatcher::kMaxTextBytes + 1, 'x'), 3, true).ok());
}

}  // namespace
}  // namespace tahmin
