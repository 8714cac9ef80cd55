// Block formats as ggml defines them (ggml-quants.c, dequantize_row_*). The layouts are in
// base/tensor_type.h; here is only what a block stands for. Products with a scale come first, then
// the multiply with the quant, then the subtraction of the minimum, each rounded to float32.
#include "gguf/dequantize.h"

#include <fmt/format.h>

#include <cstring>

#include "base/half.h"
#include "base/status_macros.h"
#include "gguf/k_quant_scales.h"

namespace tahmin {
namespace {

void DecodeBlock(const BlockQ4_0& block, float* out) {
  const float d = HalfToFloat(block.d);
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>((block.qs[i] & 15) - 8) * d;
    out[i + 16] = static_cast<float>((block.qs[i] >> 4) - 8) * d;
  }
}

void DecodeBlock(const BlockQ4_1& block, float* out) {
  const float d = HalfToFloat(block.d);
  const float m = HalfToFloat(block.m);
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>(block.qs[i] & 15) * d + m;
    out[i + 16] = static_cast<float>(block.qs[i] >> 4) * d + m;
  }
}

// The 32 quants of a block of 5 bits. Four fifth bits at a time: the product puts bit j of a nibble
// at bit 8 j.
template <typename Block>
void ReadFiveBits(const Block& block, uint8_t (&quants)[32]) {
  for (int i = 0; i < 16; ++i) {
    quants[i] = block.qs[i] & 15;
    quants[i + 16] = block.qs[i] >> 4;
  }
  for (int quad = 0; quad < 8; ++quad) {
    const uint32_t bits = block.qh[quad / 2] >> (quad % 2 * 4) & 15;
    uint32_t word;
    std::memcpy(&word, quants + 4 * quad, 4);
    word |= (bits * 0x00204081u & 0x01010101u) << 4;
    std::memcpy(quants + 4 * quad, &word, 4);
  }
}

void DecodeBlock(const BlockQ5_0& block, float* out) {
  const float d = HalfToFloat(block.d);
  uint8_t quants[32];
  ReadFiveBits(block, quants);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(quants[i] - 16) * d;
}

void DecodeBlock(const BlockQ5_1& block, float* out) {
  const float d = HalfToFloat(block.d);
  const float m = HalfToFloat(block.m);
  uint8_t quants[32];
  ReadFiveBits(block, quants);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(quants[i]) * d + m;
}

void DecodeBlock(const BlockQ8_0& block, float* out) {
  const float d = HalfToFloat(block.d);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(block.qs[i]) * d;
}

// Two halves of 128; in each, bit pair p of its 32 bytes holds elements [32 p, 32 p + 32). A scale
// covers 16 elements.
void DecodeBlock(const BlockQ2_K& block, float* out) {
  const float d = HalfToFloat(block.d);
  const float dmin = HalfToFloat(block.dmin);
  for (int i = 0; i < kSuperBlock; ++i) {
    const uint8_t scale = block.scales[i / 16];
    const int quant = (block.qs[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
    const float step = d * static_cast<float>(scale & 15);
    const float minimum = dmin * static_cast<float>(scale >> 4);
    out[i] = step * static_cast<float>(quant) - minimum;
  }
}

// Bit pairs as in Q2_K; bit i / 32 of hmask[i % 32] is the third bit, stored so that a cleared one
// means minus 4.
void DecodeBlock(const BlockQ3_K& block, float* out) {
  const float d = HalfToFloat(block.d);
  for (int i = 0; i < kSuperBlock; ++i) {
    const int low = (block.qs[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
    const int quant = low - (((block.hmask[i % 32] >> (i / 32)) & 1) != 0 ? 0 : 4);
    const float step = d * static_cast<float>(Q3KScale(block.scales, i / 16) - 32);
    out[i] = step * static_cast<float>(quant);
  }
}

// Four runs of 64; in each, the low nibbles of its 32 bytes come before the high ones.
void DecodeBlock(const BlockQ4_K& block, float* out) {
  const float d = HalfToFloat(block.d);
  const float dmin = HalfToFloat(block.dmin);
  for (int sub = 0; sub < 8; ++sub) {
    const ScaleAndMin packed = Q4KScaleAndMin(block.scales, sub);
    const float step = d * static_cast<float>(packed.scale);
    const float minimum = dmin * static_cast<float>(packed.min);
    for (int i = 0; i < 32; ++i) {
      const int quant = (block.qs[sub / 2 * 32 + i] >> (sub % 2 * 4)) & 15;
      out[sub * 32 + i] = step * static_cast<float>(quant) - minimum;
    }
  }
}

void DecodeBlock(const BlockQ5_K& block, float* out) {
  const float d = HalfToFloat(block.d);
  const float dmin = HalfToFloat(block.dmin);
  for (int sub = 0; sub < 8; ++sub) {
    const ScaleAndMin packed = Q4KScaleAndMin(block.scales, sub);
    const float step = d * static_cast<float>(packed.scale);
    const float minimum = dmin * static_cast<float>(packed.min);
    for (int i = 0; i < 32; ++i) {
      const int low = (block.qs[sub / 2 * 32 + i] >> (sub % 2 * 4)) & 15;
      const int quant = low | (((block.qh[i] >> sub) & 1) << 4);
      out[sub * 32 + i] = step * static_cast<float>(quant) - minimum;
    }
  }
}

// Two halves of 128 in four runs of 32: runs 0 and 1 are low nibbles of ql[0, 64), runs 2 and 3 the
// high ones; bit pair `run` of qh holds the upper bits.
void DecodeBlock(const BlockQ6_K& block, float* out) {
  const float d = HalfToFloat(block.d);
  for (int part = 0; part < kSuperBlock / 32; ++part) {
    const int run = part % 4;
    const uint8_t* low = block.ql + part / 4 * 64 + run % 2 * 32;
    const uint8_t* high = block.qh + part / 4 * 32;
    for (int scale = 2 * part; scale < 2 * part + 2; ++scale) {
      const float step = d * static_cast<float>(block.scales[scale]);
      for (int i = scale % 2 * 16; i < scale % 2 * 16 + 16; ++i) {
        const int quant = (low[i] >> (run / 2 * 4) & 15) | (high[i] >> (run * 2) & 3) << 4;
        out[part * 32 + i] = step * static_cast<float>(quant - 32);
      }
    }
  }
}

template <typename Block>
void DecodeBlocks(std::span<const uint8_t> bytes, int64_t block_elements, std::span<float> out) {
  const size_t num_blocks = bytes.size() / sizeof(Block);
  for (size_t i = 0; i < num_blocks; ++i) {
    Block block;  // a copy: the bytes of a file have no alignment to rely on
    std::memcpy(&block, bytes.data() + i * sizeof(Block), sizeof(Block));
    DecodeBlock(block, out.data() + i * static_cast<size_t>(block_elements));
  }
}

template <typename ToFloat>
void DecodeSixteenBit(std::span<const uint8_t> bytes, std::span<float> out, ToFloat to_float) {
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    out[i] = to_float(bits);
  }
}

}  // namespace

absl::Status DequantizeRow(TensorType type, std::span<const uint8_t> blocks, std::span<float> out) {
  TAHMIN_RETURN_IF_ERROR(CheckBlockSizes(type, out.size(), blocks.size()));
  const int64_t block_elements = FindTensorType(static_cast<uint32_t>(type))->block_elements;
  switch (type) {
    case TensorType::kF32:
      if (!out.empty()) std::memcpy(out.data(), blocks.data(), blocks.size());
      break;
    case TensorType::kF16:
      DecodeSixteenBit(blocks, out, HalfToFloat);
      break;
    case TensorType::kBF16:
      DecodeSixteenBit(blocks, out, BfloatToFloat);
      break;
    case TensorType::kQ4_0:
      DecodeBlocks<BlockQ4_0>(blocks, block_elements, out);
      break;
    case TensorType::kQ4_1:
      DecodeBlocks<BlockQ4_1>(blocks, block_elements, out);
      break;
    case TensorType::kQ5_0:
      DecodeBlocks<BlockQ5_0>(blocks, block_elements, out);
      break;
    case TensorType::kQ5_1:
      DecodeBlocks<BlockQ5_1>(blocks, block_elements, out);
      break;
    case TensorType::kQ8_0:
      DecodeBlocks<BlockQ8_0>(blocks, block_elements, out);
      break;
    case TensorType::kQ2_K:
      DecodeBlocks<BlockQ2_K>(blocks, block_elements, out);
      break;
    case TensorType::kQ3_K:
      DecodeBlocks<BlockQ3_K>(blocks, block_elements, out);
      break;
    case TensorType::kQ4_K:
      DecodeBlocks<BlockQ4_K>(blocks, block_elements, out);
      break;
    case TensorType::kQ5_K:
      DecodeBlocks<BlockQ5_K>(blocks, block_elements, out);
      break;
    case TensorType::kQ6_K:
      DecodeBlocks<BlockQ6_K>(blocks, block_elements, out);
      break;
    default:
      return absl::InternalError(fmt::format("{} is a weight type without a decoder",
                                             TensorTypeName(static_cast<uint32_t>(type))));
  }
  return absl::OkStatus();
}

}  // namespace tahmin
