#include "base/philox.h"

namespace tahmin {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53u;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57u;
constexpr uint32_t kWeyl0 = 0x9E3779B9u;  // golden ratio
constexpr uint32_t kWeyl1 = 0xBB67AE85u;  // sqrt(3) - 1
constexpr int kNumRounds = 10;

}  // namespace

std::array<uint32_t, 4> Philox4x32(uint64_t key, PhiloxCounter counter) {
  auto key0 = static_cast<uint32_t>(key);
  auto key1 = static_cast<uint32_t>(key >> 32);
  std::array<uint32_t, 4> x = {counter.word[0], counter.word[1], counter.word[2], counter.word[3]};
  for (int round = 0; round < kNumRounds; ++round) {
    const uint64_t product0 = static_cast<uint64_t>(kMultiplier0) * x[0];
    const uint64_t product1 = static_cast<uint64_t>(kMultiplier1) * x[2];
    x = {static_cast<uint32_t>(product1 >> 32) ^ x[1] ^ key0, static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ x[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return x;
}

PhiloxCounter MakeCounter(DrawPurpose purpose, uint32_t lane, uint64_t position) {
  return {{static_cast<uint32_t>(purpose), lane, static_cast<uint32_t>(position),
           static_cast<uint32_t>(position >> 32)}};
}

double UniformOpen(uint32_t bits) { return (static_cast<double>(bits) + 0.5) * 0x1p-32; }

}  // namespace tahmin
