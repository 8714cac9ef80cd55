// Plain round-to-nearest quantisers: one scale from the extremes of a block, no search for a better
// one. What they lose in quality they win in being easy to check.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "base/status_macros.h"
#include "gguf/dequantize.h"
#include "gguf/k_quant_scales.h"

namespace tahmin {

absl::Status CheckBlockSizes(TensorType type, size_t num_elements, size_t num_bytes) {
  const uint32_t number = static_cast<uint32_t>(type);
  const TensorTypeTraits* traits = FindTensorType(number);
  if (traits == nullptr || !traits->is_weight) {
    return absl::InvalidArgumentError(
        fmt::format("{} is not a weight type", TensorTypeName(number)));
  }
  const size_t block_elements = static_cast<size_t>(traits->block_elements);
  if (num_elements % block_elements != 0) {
    return absl::InvalidArgumentError(
        fmt::format("{} elements are not whole blocks of {} ({} elements each)", num_elements,
                    traits->name, block_elements));
  }
  const size_t expected_bytes = num_elements / block_elements * traits->block_bytes;
  if (num_bytes != expected_bytes) {
    return absl::InvalidArgumentError(fmt::format("{} elements of {} take {} bytes, found {}",
                                                  num_elements, traits->name, expected_bytes,
                                                  num_bytes));
  }
  return absl::OkStatus();
}

namespace {

// Nearest quant for value = quant * step + offset, within [low, high].
int Quant(float value, float step, float offset, int low, int high) {
  if (step == 0.0f) return std::clamp(0, low, high);
  const float scaled = std::nearbyintf((value - offset) / step);
  return static_cast<int>(std::clamp(scaled, static_cast<float>(low), static_cast<float>(high)));
}

struct Extremes {
  float low = 0;
  float high = 0;
  float largest() const { return std::max(-low, high); }
};

// Zero is always inside, as the formats with a minimum below zero need.
Extremes FindExtremes(const float* values, int count) {
  Extremes extremes;
  for (int i = 0; i < count; ++i) {
    extremes.low = std::min(extremes.low, values[i]);
    extremes.high = std::max(extremes.high, values[i]);
  }
  return extremes;
}

// The value of largest magnitude, with its sign.
float Peak(const float* values, int count) {
  const Extremes extremes = FindExtremes(values, count);
  return -extremes.low > extremes.high ? extremes.low : extremes.high;
}

// Rounds a scale to its stored half; `stored` gets the bits, the value of those bits comes back.
float StoreHalf(float value, uint16_t* stored) {
  *stored = FloatToHalf(value);
  return HalfToFloat(*stored);
}

void EncodeBlock(const float* in, BlockQ4_0& block) {
  const float d = StoreHalf(Peak(in, 32) / -8.0f, &block.d);
  for (int i = 0; i < 16; ++i) {
    const int low = Quant(in[i], d, 0, -8, 7) + 8;
    const int high = Quant(in[i + 16], d, 0, -8, 7) + 8;
    block.qs[i] = static_cast<uint8_t>(low | (high << 4));
  }
}

void EncodeBlock(const float* in, BlockQ4_1& block) {
  const auto [low_value, high_value] = std::minmax_element(in, in + 32);
  const float m = StoreHalf(*low_value, &block.m);
  const float d = StoreHalf((*high_value - *low_value) / 15.0f, &block.d);
  for (int i = 0; i < 16; ++i) {
    const int low = Quant(in[i], d, m, 0, 15);
    const int high = Quant(in[i + 16], d, m, 0, 15);
    block.qs[i] = static_cast<uint8_t>(low | (high << 4));
  }
}

void StoreFiveBits(int quant, int i, uint8_t* qh, uint8_t* qs) {
  qs[i % 16] |= static_cast<uint8_t>((quant & 15) << (i / 16 * 4));
  qh[i / 8] |= static_cast<uint8_t>((quant >> 4) << (i % 8));
}

void EncodeBlock(const float* in, BlockQ5_0& block) {
  const float d = StoreHalf(Peak(in, 32) / -16.0f, &block.d);
  for (int i = 0; i < 32; ++i) {
    StoreFiveBits(Quant(in[i], d, 0, -16, 15) + 16, i, block.qh, block.qs);
  }
}

void EncodeBlock(const float* in, BlockQ5_1& block) {
  const auto [low_value, high_value] = std::minmax_element(in, in + 32);
  const float m = StoreHalf(*low_value, &block.m);
  const float d = StoreHalf((*high_value - *low_value) / 31.0f, &block.d);
  for (int i = 0; i < 32; ++i) {
    StoreFiveBits(Quant(in[i], d, m, 0, 31), i, block.qh, block.qs);
  }
}

void EncodeBlock(const float* in, BlockQ8_0& block) {
  const float d = StoreHalf(FindExtremes(in, 32).largest() / 127.0f, &block.d);
  for (int i = 0; i < 32; ++i) block.qs[i] = static_cast<int8_t>(Quant(in[i], d, 0, -127, 127));
}

void EncodeBlock(const float* in, BlockQ2_K& block) {
  Extremes largest;  // low: of the minima, high: of the steps
  for (int sub = 0; sub < 16; ++sub) {
    const Extremes extremes = FindExtremes(in + sub * 16, 16);
    largest.low = std::min(largest.low, extremes.low);
    largest.high = std::max(largest.high, (extremes.high - extremes.low) / 3.0f);
  }
  const float d = StoreHalf(largest.high / 15.0f, &block.d);
  const float dmin = StoreHalf(-largest.low / 15.0f, &block.dmin);
  for (int sub = 0; sub < 16; ++sub) {
    const Extremes extremes = FindExtremes(in + sub * 16, 16);
    const int scale = Quant((extremes.high - extremes.low) / 3.0f, d, 0, 0, 15);
    const int min = Quant(-extremes.low, dmin, 0, 0, 15);
    block.scales[sub] = static_cast<uint8_t>(scale | (min << 4));
    const float step = d * static_cast<float>(scale);
    const float offset = -(dmin * static_cast<float>(min));
    for (int i = sub * 16; i < sub * 16 + 16; ++i) {
      const int quant = Quant(in[i], step, offset, 0, 3);
      block.qs[i / 128 * 32 + i % 32] |= static_cast<uint8_t>(quant << (i / 32 % 4 * 2));
    }
  }
}

void EncodeBlock(const float* in, BlockQ3_K& block) {
  float largest_step = 0;
  for (int sub = 0; sub < 16; ++sub) {
    const float step = Peak(in + sub * 16, 16) / -4.0f;
    largest_step = std::max(largest_step, std::abs(step));
  }
  const float d = StoreHalf(largest_step / 31.0f, &block.d);
  for (int sub = 0; sub < 16; ++sub) {
    const int scale = Quant(Peak(in + sub * 16, 16) / -4.0f, d, 0, -32, 31);
    PackQ3KScale(scale + 32, sub, block.scales);
    const float step = d * static_cast<float>(scale);
    for (int i = sub * 16; i < sub * 16 + 16; ++i) {
      const int quant = Quant(in[i], step, 0, -4, 3) + 4;
      block.qs[i / 128 * 32 + i % 32] |= static_cast<uint8_t>((quant & 3) << (i / 32 % 4 * 2));
      block.hmask[i % 32] |= static_cast<uint8_t>((quant >> 2) << (i / 32));
    }
  }
}

// Q4_K and Q5_K differ in the largest quant and in where its bits go.
template <typename Block, typename Store>
void EncodeWithMinima(const float* in, int largest_quant, Block& block, Store store) {
  Extremes largest;  // low: of the minima, high: of the steps
  const float range = static_cast<float>(largest_quant);
  for (int sub = 0; sub < 8; ++sub) {
    const Extremes extremes = FindExtremes(in + sub * 32, 32);
    largest.low = std::min(largest.low, extremes.low);
    largest.high = std::max(largest.high, (extremes.high - extremes.low) / range);
  }
  const float d = StoreHalf(largest.high / 63.0f, &block.d);
  const float dmin = StoreHalf(-largest.low / 63.0f, &block.dmin);
  for (int sub = 0; sub < 8; ++sub) {
    const Extremes extremes = FindExtremes(in + sub * 32, 32);
    const int scale = Quant((extremes.high - extremes.low) / range, d, 0, 0, 63);
    const int min = Quant(-extremes.low, dmin, 0, 0, 63);
    PackQ4KScaleAndMin({scale, min}, sub, block.scales);
    const float step = d * static_cast<float>(scale);
    const float offset = -(dmin * static_cast<float>(min));
    for (int i = 0; i < 32; ++i) {
      store(sub, i, Quant(in[sub * 32 + i], step, offset, 0, largest_quant));
    }
  }
}

void EncodeBlock(const float* in, BlockQ4_K& block) {
  EncodeWithMinima(in, 15, block, [&](int sub, int i, int quant) {
    block.qs[sub / 2 * 32 + i] |= static_cast<uint8_t>(quant << (sub % 2 * 4));
  });
}

void EncodeBlock(const float* in, BlockQ5_K& block) {
  EncodeWithMinima(in, 31, block, [&](int sub, int i, int quant) {
    block.qs[sub / 2 * 32 + i] |= static_cast<uint8_t>((quant & 15) << (sub % 2 * 4));
    block.qh[i] |= static_cast<uint8_t>((quant >> 4) << sub);
  });
}

void EncodeBlock(const float* in, BlockQ6_K& block) {
  float largest_step = 0;
  for (int sub = 0; sub < 16; ++sub) {
    largest_step = std::max(largest_step, std::abs(Peak(in + sub * 16, 16) / -32.0f));
  }
  const float d = StoreHalf(largest_step / 127.0f, &block.d);
  for (int sub = 0; sub < 16; ++sub) {
    const int scale = Quant(Peak(in + sub * 16, 16) / -32.0f, d, 0, -128, 127);
    block.scales[sub] = static_cast<int8_t>(scale);
    const float step = d * static_cast<float>(scale);
    for (int i = sub * 16; i < sub * 16 + 16; ++i) {
      const int quant = Quant(in[i], step, 0, -32, 31) + 32;
      const int half = i / 128;
      const int run = i / 32 % 4;
      block.ql[half * 64 + run % 2 * 32 + i % 32] |=
          static_cast<uint8_t>((quant & 15) << (run / 2 * 4));
      block.qh[half * 32 + i % 32] |= static_cast<uint8_t>((quant >> 4) << (run * 2));
    }
  }
}

template <typename Block>
void EncodeBlocks(std::span<const float> values, std::span<uint8_t> out) {
  const size_t num_blocks = out.size() / sizeof(Block);
  const size_t block_elements = num_blocks == 0 ? 0 : values.size() / num_blocks;
  for (size_t i = 0; i < num_blocks; ++i) {
    Block block{};
    EncodeBlock(values.data() + i * block_elements, block);
    std::memcpy(out.data() + i * sizeof(Block), &block, sizeof(Block));
  }
}

template <typename ToBits>
void EncodeSixteenBit(std::span<const float> values, std::span<uint8_t> out, ToBits to_bits) {
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = to_bits(values[i]);
    std::memcpy(out.data() + 2 * i, &bits, 2);
  }
}

// A block has one scale for all, so a value that is not finite or overflows the scale's half would
// spoil its neighbours.
absl::Status CheckRange(TensorType type, std::span<const float> values) {
  constexpr float kLargestHalf = 65504.0f;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!(std::abs(values[i]) <= kLargestHalf)) {
      return absl::InvalidArgumentError(fmt::format("value {} is {}, cannot be stored as {}", i,
                                                    values[i],
                                                    TensorTypeName(static_cast<uint32_t>(type))));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status QuantizeRow(TensorType type, std::span<const float> values, std::span<uint8_t> out) {
  TAHMIN_RETURN_IF_ERROR(CheckBlockSizes(type, values.size(), out.size()));
  if (FindTensorType(static_cast<uint32_t>(type))->block_elements > 1) {
    TAHMIN_RETURN_IF_ERROR(CheckRange(type, values));
  }
  switch (type) {
    case TensorType::kF32:
      if (!out.empty()) std::memcpy(out.data(), values.data(), out.size());
      break;
    case TensorType::kF16:
      EncodeSixteenBit(values, out, FloatToHalf);
      break;
    case TensorType::kBF16:
      EncodeSixteenBit(values, out, FloatToBfloat);
      break;
    case TensorType::kQ4_0:
      EncodeBlocks<BlockQ4_0>(values, out);
      break;
    case TensorType::kQ4_1:
      EncodeBlocks<BlockQ4_1>(values, out);
      break;
    case TensorType::kQ5_0:
      EncodeBlocks<BlockQ5_0>(values, out);
      break;
    case TensorType::kQ5_1:
      EncodeBlocks<BlockQ5_1>(values, out);
      break;
    case TensorType::kQ8_0:
      EncodeBlocks<BlockQ8_0>(values, out);
      break;
    case TensorType::kQ2_K:
      EncodeBlocks<BlockQ2_K>(values, out);
      break;
    case TensorType::kQ3_K:
      EncodeBlocks<BlockQ3_K>(values, out);
      break;
    case TensorType::kQ4_K:
      EncodeBlocks<BlockQ4_K>(values, out);
      break;
    case TensorType::kQ5_K:
      EncodeBlocks<BlockQ5_K>(values, out);
      break;
    case TensorType::kQ6_K:
      EncodeBlocks<BlockQ6_K>(values, out);
      break;
    default:
      return absl::InternalError(fmt::format("{} is a weight type without an encoder",
                                             TensorTypeName(static_cast<uint32_t>(type))));
  }
  return absl::OkStatus();
}

}  // namespace tahmin
