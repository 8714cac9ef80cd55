// Philox4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011); the scalar
// form is base/philox.cc. Here one token is one 64-bit lane that uses the low half, because the
// products are 64 bits wide; what stands in the high halves is never read. All tokens of a call
// share the purpose and the position, so most of the first three rounds is the same for all and
// done once.
#include "sampling/keyed_draw.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampling/keyed_draw.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#ifndef TAHMIN_SAMPLING_KEYED_DRAW_SHARED
#define TAHMIN_SAMPLING_KEYED_DRAW_SHARED
namespace tahmin {

// Candidates handled at once; a multiple of the lanes of every vector type.
constexpr size_t kNoiseBlock = 512;
// No noise is larger: -log(-log(1 - 2^-33)) = 22.874.
constexpr float kNoiseBound = 22.9f;

static_assert(sizeof(Candidate) == 8 && offsetof(Candidate, token) == 0 &&
              offsetof(Candidate, logit) == 4);

constexpr uint32_t kMultiplier0 = 0xD2511F53u;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57u;

// What the rounds need that does not depend on the token. Words x0..x3 after each round:
struct PhiloxSchedule {
  uint64_t seed;
  uint64_t position;
  std::array<uint32_t, 10> key0, key1;
  uint32_t round0_x0;  // x0 = token ^ this; x1, x2, x3 are shared
  uint32_t round1_x2;  // x2 = high(M0 x0) ^ this, x3 = low(M0 x0); x0, x1 are shared
  uint32_t round2_x0;  // x0 = high(M1 x2) ^ this, x1 = low(M1 x2)
  uint32_t round2_x2;  // x2 = x3 ^ this
  uint32_t round2_x3;  // x3 = this
};

}  // namespace tahmin
#endif  // TAHMIN_SAMPLING_KEYED_DRAW_SHARED

HWY_BEFORE_NAMESPACE();
namespace tahmin {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Word 0 of the generator for each candidate. count: a multiple of the lanes.
#if HWY_TARGET == HWY_SCALAR
void NoiseWords(const Candidate* candidates, size_t count, const PhiloxSchedule& schedule,
                uint32_t* words) {
  for (size_t i = 0; i < count; ++i) {
    const auto lane = static_cast<uint32_t>(candidates[i].token);
    words[i] =
        Philox4x32(schedule.seed, MakeCounter(DrawPurpose::kToken, lane, schedule.position))[0];
  }
}
#else
using D32 = hn::ScalableTag<uint32_t>;
using D64 = hn::Repartition<uint64_t, D32>;
using V64 = hn::Vec<D64>;

HWY_INLINE V64 Multiply(V64 low_halves, hn::Vec<D32> multiplier) {
  return hn::MulEven(hn::BitCast(D32(), low_halves), multiplier);
}

HWY_INLINE V64 TokenRounds(V64 token, const PhiloxSchedule& schedule) {
  const D64 d64;
  const auto m0 = hn::Set(D32(), kMultiplier0);
  const auto m1 = hn::Set(D32(), kMultiplier1);
  const auto word = [&](uint32_t value) { return hn::Set(d64, value); };
  V64 x0 = hn::Xor(token, word(schedule.round0_x0));
  V64 x3 = Multiply(x0, m0);
  V64 x2 = hn::Xor(hn::ShiftRight<32>(x3), word(schedule.round1_x2));
  V64 x1 = Multiply(x2, m1);
  x0 = hn::Xor(hn::ShiftRight<32>(x1), word(schedule.round2_x0));
  x2 = hn::Xor(x3, word(schedule.round2_x2));
  x3 = word(schedule.round2_x3);
  for (size_t round = 3; round < 9; ++round) {
    const V64 product0 = Multiply(x0, m0);
    const V64 product1 = Multiply(x2, m1);
    x0 = hn::Xor(hn::ShiftRight<32>(product1), hn::Xor(x1, word(schedule.key0[round])));
    x1 = product1;
    x2 = hn::Xor(hn::ShiftRight<32>(product0), hn::Xor(x3, word(schedule.key1[round])));
    x3 = product0;
  }
  return hn::Xor(hn::ShiftRight<32>(Multiply(x2, m1)), hn::Xor(x1, word(schedule.key0[9])));
}

void NoiseWords(const Candidate* candidates, size_t count, const PhiloxSchedule& schedule,
                uint32_t* words) {
  const D32 d32;
  const D64 d64;
  const size_t lanes = hn::Lanes(d32);
  const auto* pairs = reinterpret_cast<const uint32_t*>(candidates);  // token, logit, token, ...
  for (size_t i = 0; i < count; i += lanes) {
    const V64 low = hn::BitCast(d64, hn::LoadU(d32, pairs + 2 * i));
    const V64 high = hn::BitCast(d64, hn::LoadU(d32, pairs + 2 * i + lanes));
    const auto low_words = hn::BitCast(d32, TokenRounds(low, schedule));
    const auto high_words = hn::BitCast(d32, TokenRounds(high, schedule));
    hn::StoreU(hn::ConcatEven(d32, high_words, low_words), d32, words + i);
  }
}
#endif

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
using DI = hn::RebindToSigned<DF>;
using VI = hn::Vec<DI>;

// exponent * log(2) + log(1 + f), -0.293 <= f <= 0.415: 2 atanh(s) with s = f / (2 + f), |s| <=
// 0.172; the first term left out is 2e-9 of the sum.
HWY_INLINE VF LogFrom(VF exponent, VF f) {
  const DF d;
  const VF s = hn::Div(f, hn::Add(f, hn::Set(d, 2.0f)));
  const VF s2 = hn::Mul(s, s);
  const VF twice_s = hn::Add(s, s);
  VF series = hn::MulAdd(s2, hn::Set(d, 1.0f / 9), hn::Set(d, 1.0f / 7));
  series = hn::MulAdd(s2, series, hn::Set(d, 1.0f / 5));
  series = hn::MulAdd(s2, series, hn::Set(d, 1.0f / 3));
  const VF log_mantissa = hn::MulAdd(hn::Mul(twice_s, s2), series, twice_s);
  return hn::MulAdd(exponent, hn::Set(d, 0.693147180559945f), log_mantissa);
}

// x = 2^exponent * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); x positive and normal.
HWY_INLINE void Split(VF x, VF& exponent, VF& f) {
  const DF d;
  const DI di;
  const VI bits = hn::BitCast(di, x);
  const VI sqrt_half_bits = hn::Set(di, 0x3F3504F3);
  const VI power = hn::ShiftRight<23>(hn::Sub(bits, sqrt_half_bits));
  exponent = hn::ConvertTo(d, power);
  f = hn::Sub(hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(power))), hn::Set(d, 1.0f));
}

// -log(-log(u)), u = (bits + 0.5) / 2^32. Where u > 1/2 the inner logarithm is taken of 1 - t with
// t = 1 - u, which a float holds without losing the tail near 1.
HWY_INLINE VF GumbelOf(VI bits) {
  const DF d;
  const VI sign = hn::ShiftRight<31>(bits);  // all ones where u > 1/2
  const VF t =
      hn::MulAdd(hn::ConvertTo(d, hn::Xor(bits, sign)), hn::Set(d, 0x1p-32f), hn::Set(d, 0x1p-33f));
  VF exponent, f;
  Split(t, exponent, f);
  const auto is_upper = hn::MaskFromVec(hn::BitCast(d, sign));
  const auto is_near_one = hn::Lt(t, hn::Set(d, 0.29f));
  const VF upper_f =
      hn::IfThenElse(is_near_one, hn::Neg(t), hn::NegMulAdd(hn::Set(d, 2.0f), t, hn::Set(d, 1.0f)));
  const VF upper_exponent = hn::IfThenElse(is_near_one, hn::Zero(d), hn::Set(d, -1.0f));
  f = hn::IfThenElse(is_upper, upper_f, f);
  exponent = hn::IfThenElse(is_upper, upper_exponent, exponent);
  Split(hn::Neg(LogFrom(exponent, f)), exponent, f);
  return hn::Neg(LogFrom(exponent, f));
}

// noise[0, count) for a block; count: a multiple of the lanes, at most kNoiseBlock.
void BlockNoise(const Candidate* block, size_t count, const PhiloxSchedule& schedule,
                float* noise) {
  HWY_ALIGN uint32_t words[kNoiseBlock];
  NoiseWords(block, count, schedule, words);
  const DF d;
  const DI di;
  const hn::RebindToUnsigned<DF> du;
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(GumbelOf(hn::BitCast(di, hn::LoadU(du, words + i))), d, noise + i);
  }
}

// The largest logit + noise of a block (noise null: the largest logit).
float BlockMax(const Candidate* block, size_t count, const float* noise) {
  const DF d;
  VF max = hn::Set(d, -std::numeric_limits<float>::infinity());
  const auto* pairs = reinterpret_cast<const float*>(block);
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    VF token, score;
    hn::LoadInterleaved2(d, pairs + 2 * i, token, score);
    if (noise != nullptr) score = hn::Add(score, hn::LoadU(d, noise + i));
    max = hn::Max(max, score);
  }
  return hn::GetLane(hn::MaxOfLanes(d, max));
}

// A block of at most kNoiseBlock candidates, filled up to whole vectors: tails run the same vector
// code.
struct PaddedBlock {
  PaddedBlock(const Candidate* candidates, size_t count) {
    const size_t lanes = hn::Lanes(DF());
    data = candidates;
    padded_count = (count + lanes - 1) / lanes * lanes;
    if (padded_count == count) return;
    std::copy(candidates, candidates + count, copy);
    std::fill(copy + count, copy + padded_count,
              Candidate{0, -std::numeric_limits<float>::infinity()});
    data = copy;
  }
  const Candidate* data;
  size_t padded_count;
  Candidate copy[kNoiseBlock];
};

void NoiseOf(const Candidate* candidates, size_t count, const PhiloxSchedule& schedule,
             float* out) {
  HWY_ALIGN float noise[kNoiseBlock];
  for (size_t begin = 0; begin < count; begin += kNoiseBlock) {
    const size_t size = std::min(kNoiseBlock, count - begin);
    const PaddedBlock block(candidates + begin, size);
    BlockNoise(block.data, block.padded_count, schedule, noise);
    std::copy(noise, noise + size, out + begin);
  }
}

int32_t DrawBest(const Candidate* candidates, size_t count, const PhiloxSchedule& schedule) {
  HWY_ALIGN float noise[kNoiseBlock];
  float best = -std::numeric_limits<float>::infinity();
  int32_t best_token = std::numeric_limits<int32_t>::max();
  for (size_t begin = 0; begin < count; begin += kNoiseBlock) {
    const size_t size = std::min(kNoiseBlock, count - begin);
    const PaddedBlock block(candidates + begin, size);
    // Rounding is monotonic, so no score of the block can exceed this sum.
    if (BlockMax(block.data, block.padded_count, nullptr) + kNoiseBound < best) continue;
    BlockNoise(block.data, block.padded_count, schedule, noise);
    if (BlockMax(block.data, block.padded_count, noise) < best) continue;
    for (size_t i = 0; i < size; ++i) {
      const Candidate& candidate = candidates[begin + i];
      const float score = candidate.logit + noise[i];
      if (score < best || (score == best && candidate.token > best_token)) continue;
      best = score;
      best_token = candidate.token;
    }
  }
  return best_token;
}

}  // namespace HWY_NAMESPACE
}  // namespace tahmin
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace tahmin {
namespace {

HWY_EXPORT(NoiseOf);
HWY_EXPORT(DrawBest);

uint32_t High(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>((static_cast<uint64_t>(a) * b) >> 32);
}

PhiloxSchedule MakeSchedule(uint64_t seed, int64_t position) {
  PhiloxSchedule schedule;
  schedule.seed = seed;
  schedule.position = static_cast<uint64_t>(position);
  for (uint32_t round = 0; round < 10; ++round) {
    schedule.key0[round] = static_cast<uint32_t>(seed) + round * 0x9E3779B9u;
    schedule.key1[round] = static_cast<uint32_t>(seed >> 32) + round * 0xBB67AE85u;
  }
  const PhiloxCounter counter = MakeCounter(DrawPurpose::kToken, 0, schedule.position);
  // Words of the counter after rounds 0 and 1, where they do not depend on the token.
  const uint32_t a1 = kMultiplier1 * counter.word[2];
  const uint32_t a2 = High(kMultiplier0, counter.word[0]) ^ counter.word[3] ^ schedule.key1[0];
  const uint32_t a3 = kMultiplier0 * counter.word[0];
  const uint32_t b0 = High(kMultiplier1, a2) ^ a1 ^ schedule.key0[1];
  const uint32_t b1 = kMultiplier1 * a2;
  schedule.round0_x0 = High(kMultiplier1, counter.word[2]) ^ schedule.key0[0];
  schedule.round1_x2 = a3 ^ schedule.key1[1];
  schedule.round2_x0 = b1 ^ schedule.key0[2];
  schedule.round2_x2 = High(kMultiplier0, b0) ^ schedule.key1[2];
  schedule.round2_x3 = kMultiplier0 * b0;
  return schedule;
}

}  // namespace

int32_t KeyedDraw(std::span<const Candidate> candidates, uint64_t seed, int64_t position) {
  TAHMIN_CHECK(!candidates.empty());
  if (candidates.size() == 1) return candidates.front().token;
  return HWY_DYNAMIC_DISPATCH(DrawBest)(candidates.data(), candidates.size(),
                                        MakeSchedule(seed, position));
}

void GumbelNoise(std::span<const Candidate> candidates, uint64_t seed, int64_t position,
                 std::span<float> out) {
  TAHMIN_CHECK(out.size() == candidates.size());
  HWY_DYNAMIC_DISPATCH(NoiseOf)
  (candidates.data(), candidates.size(), MakeSchedule(seed, position), out.data());
}

double StepUniform(uint64_t seed, DrawPurpose purpose, int64_t step_index, uint32_t lane,
                   int64_t position) {
  TAHMIN_CHECK(step_index >= 0 && step_index < (int64_t{1} << 32));
  TAHMIN_CHECK(position >= 0 && position < (int64_t{1} << 32));
  const uint64_t place = static_cast<uint64_t>(step_index) << 32 | static_cast<uint64_t>(position);
  const std::array<uint32_t, 4> words = Philox4x32(seed, MakeCounter(purpose, lane, place));
  const uint64_t bits = static_cast<uint64_t>(words[0]) << 20 | words[1] >> 12;
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

int32_t DrawFrom(const TokenDistribution& distribution, double uniform) {
  TAHMIN_CHECK(!distribution.entries.empty());
  double cumulative = 0;
  for (const TokenProbability& entry : distribution.entries) {
    cumulative += entry.probability;
    if (uniform < cumulative) return entry.token;
  }
  return distribution.entries.back().token;
}

}  // namespace tahmin
#endif  // HWY_ONCE
