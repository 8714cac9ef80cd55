#include "base/philox.h"

#include <array>
#include <cstdint>

#include "gtest/gtest.h"

namespace tahmin {
namespace {

using Words = std::array<uint32_t, 4>;

// The known-answer vectors published with the authors' own implementation (philox4x32, 10 rounds).
TEST(Philox, MatchesPublishedVectors) {
  EXPECT_EQ(Philox4x32(0, {{0, 0, 0, 0}}), (Words{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  EXPECT_EQ(Philox4x32(0xFFFFFFFFFFFFFFFFu, {{0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}}),
            (Words{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(Philox4x32(0x299F31D0A4093822u, {{0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}}),
            (Words{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

TEST(Philox, CounterLayout) {
  const PhiloxCounter counter = MakeCounter(DrawPurpose::kResidual, 77, 0x1122334455667788u);
  EXPECT_EQ(counter.word[0], 3u);
  EXPECT_EQ(counter.word[1], 77u);
  EXPECT_EQ(counter.word[2], 0x55667788u);
  EXPECT_EQ(counter.word[3], 0x11223344u);
}

TEST(Philox, EachPartOfTheCounterAndTheKeyChangesTheDraw) {
  const Words base = Philox4x32(5, MakeCounter(DrawPurpose::kToken, 1, 1));
  EXPECT_NE(base, Philox4x32(6, MakeCounter(DrawPurpose::kToken, 1, 1)));
  EXPECT_NE(base, Philox4x32(5, MakeCounter(DrawPurpose::kDraft, 1, 1)));
  EXPECT_NE(base, Philox4x32(5, MakeCounter(DrawPurpose::kToken, 2, 1)));
  EXPECT_NE(base, Philox4x32(5, MakeCounter(DrawPurpose::kToken, 1, 2)));
  EXPECT_NE(base, Philox4x32(5, MakeCounter(DrawPurpose::kToken, 1, (uint64_t{1} << 32) + 1)));
}

TEST(Philox, UniformIsExactAndOpen) {
  EXPECT_EQ(UniformOpen(0), 0x1p-33);
  EXPECT_EQ(UniformOpen(0xFFFFFFFF), 1.0 - 0x1p-33);
  EXPECT_EQ(UniformOpen(0x80000000), 0.5 + 0x1p-33);
  EXPECT_GT(UniformOpen(0), 0.0);
  EXPECT_LT(UniformOpen(0xFFFFFFFF), 1.0);
}

}  // namespace
}  // namespace tahmin
