#include <algorithm>
#include <array>
#include <bit>

#include "sampling/filters.h"

namespace tahmin {
namespace {

constexpr size_t kDigitBits = 11;
constexpr size_t kNumPasses = 3;
constexpr uint32_t kDigitMask = (1u << kDigitBits) - 1;

// Ascending keys are descending logits; both zeros get the same key, as they compare equal.
uint32_t DescendingKey(float logit) {
  const auto bits = std::bit_cast<uint32_t>(logit + 0.0f);
  return (bits & 0x80000000u) != 0 ? bits : bits ^ 0x7FFFFFFFu;
}

uint32_t DigitOf(const Candidate& candidate, size_t pass) {
  return DescendingKey(candidate.logit) >> (pass * kDigitBits) & kDigitMask;
}

// One stable counting pass by one digit.
void SortByDigit(const Candidate* from, size_t size, size_t pass, Candidate* to) {
  std::array<uint32_t, kDigitMask + 1> places{};
  for (size_t i = 0; i < size; ++i) ++places[DigitOf(from[i], pass)];
  uint32_t next = 0;
  for (uint32_t& place : places) {
    const uint32_t count = place;
    place = next;
    next += count;
  }
  for (size_t i = 0; i < size; ++i) to[places[DigitOf(from[i], pass)]++] = from[i];
}

}  // namespace

void RankFrom(size_t begin, std::vector<Candidate>& candidates) {
  constexpr size_t kSmall = 2048;
  const size_t size = candidates.size() - begin;
  if (size <= kSmall) {
    std::sort(candidates.begin() + begin, candidates.end(), RanksBefore);
    return;
  }
  // Stable passes keep the id order among equal logits.
  std::vector<Candidate> scratch(size);
  Candidate* from = candidates.data() + begin;
  Candidate* to = scratch.data();
  for (size_t pass = 0; pass < kNumPasses; ++pass) {
    SortByDigit(from, size, pass, to);
    std::swap(from, to);
  }
  std::copy(scratch.begin(), scratch.end(), candidates.begin() + begin);
}

}  // namespace tahmin
