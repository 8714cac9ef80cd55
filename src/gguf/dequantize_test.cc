// Dequantisation three ways: against formulas written here block by block in the manner of the
// format descriptions, against values that tests/data/gguf_numpy.py computed for blocks of real
// models, and through the quantisers.
#include "gguf/dequantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/half.h"
#include "base/philox.h"

namespace tahmin {
namespace {

using ::testing::HasSubstr;

constexpr TensorType kBlockTypes[] = {
    TensorType::kQ4_0, TensorType::kQ4_1, TensorType::kQ5_0, TensorType::kQ5_1, TensorType::kQ8_0,
    TensorType::kQ2_K, TensorType::kQ3_K, TensorType::kQ4_K, TensorType::kQ5_K, TensorType::kQ6_K};

const TensorTypeTraits& Traits(TensorType type) {
  return *FindTensorType(static_cast<uint32_t>(type));
}

uint32_t RandomWord(uint64_t key, uint32_t index) {
  return Philox4x32(key, PhiloxCounter{{index / 4, 0, 0, 0}})[index % 4];
}

float HalfAt(const uint8_t* bytes) {
  return HalfToFloat(static_cast<uint16_t>(bytes[0] | (bytes[1] << 8)));
}

// Where the halves of a block lie.
std::vector<size_t> HalfOffsets(TensorType type) {
  switch (type) {
    case TensorType::kQ4_1:
    case TensorType::kQ5_1:
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
      return {0, 2};
    case TensorType::kQ2_K:
      return {80, 82};
    case TensorType::kQ3_K:
      return {108};
    case TensorType::kQ6_K:
      return {208};
    default:
      return {0};
  }
}

// Any bytes, but finite scales (NaN would compare unequal to itself).
std::vector<uint8_t> RandomBlock(TensorType type, uint64_t key) {
  std::vector<uint8_t> block(Traits(type).block_bytes);
  for (size_t i = 0; i < block.size(); ++i) {
    block[i] = static_cast<uint8_t>(RandomWord(key, static_cast<uint32_t>(i)) >> 13);
  }
  for (size_t offset : HalfOffsets(type)) {
    if ((block[offset + 1] & 0x7C) == 0x7C) block[offset + 1] ^= 0x40;
  }
  return block;
}

void SmallBlockFormula(TensorType type, const uint8_t* block, std::vector<float>& out) {
  const float d = HalfAt(block);
  const bool has_minimum = type == TensorType::kQ4_1 || type == TensorType::kQ5_1;
  const bool has_fifth_bit = type == TensorType::kQ5_0 || type == TensorType::kQ5_1;
  const float m = has_minimum ? HalfAt(block + 2) : 0.0f;
  const uint8_t* high_bytes = block + (has_minimum ? 4 : 2);
  const uint8_t* quants = high_bytes + (has_fifth_bit ? 4 : 0);
  uint32_t high = 0;
  if (has_fifth_bit) std::memcpy(&high, high_bytes, 4);
  for (int i = 0; i < 32; ++i) {
    int quant = i < 16 ? quants[i] % 16 : quants[i - 16] / 16;
    if (((high >> i) & 1) != 0) quant += 16;
    if (!has_minimum) quant -= has_fifth_bit ? 16 : 8;
    const float product = static_cast<float>(quant) * d;
    out.push_back(has_minimum ? product + m : product);
  }
}

void Q8Formula(const uint8_t* block, std::vector<float>& out) {
  for (int i = 0; i < 32; ++i) {
    out.push_back(static_cast<float>(static_cast<int8_t>(block[2 + i])) * HalfAt(block));
  }
}

void Q2Formula(const uint8_t* block, std::vector<float>& out) {
  const uint8_t* scale = block;
  for (const uint8_t* q = block + 16; q < block + 80; q += 32) {
    for (int shift = 0; shift < 8; shift += 2) {
      for (int l = 0; l < 32; ++l) {
        const uint8_t s = scale[l / 16];
        const float dl = HalfAt(block + 80) * static_cast<float>(s & 0xF);
        const float ml = HalfAt(block + 82) * static_cast<float>(s >> 4);
        out.push_back(dl * static_cast<float>((q[l] >> shift) & 3) - ml);
      }
      scale += 2;
    }
  }
}

void Q3Formula(const uint8_t* block, std::vector<float>& out) {
  // The scales through the word form of the format's reference.
  uint32_t word[4];
  std::memcpy(word, block + 96, 12);
  const uint32_t upper = word[2];
  word[2] = ((word[0] >> 4) & 0x0F0F0F0F) | (((upper >> 4) & 0x03030303) << 4);
  word[3] = ((word[1] >> 4) & 0x0F0F0F0F) | (((upper >> 6) & 0x03030303) << 4);
  word[0] = (word[0] & 0x0F0F0F0F) | ((upper & 0x03030303) << 4);
  word[1] = (word[1] & 0x0F0F0F0F) | (((upper >> 2) & 0x03030303) << 4);
  uint8_t scales[16];
  std::memcpy(scales, word, 16);
  uint8_t mask = 1;
  int next = 0;
  for (const uint8_t* q = block + 32; q < block + 96; q += 32) {
    for (int shift = 0; shift < 8; shift += 2) {
      for (int l = 0; l < 32; ++l) {
        const float dl =
            HalfAt(block + 108) * static_cast<float>(static_cast<int>(scales[next + l / 16]) - 32);
        const int quant = ((q[l] >> shift) & 3) - ((block[l] & mask) != 0 ? 0 : 4);
        out.push_back(dl * static_cast<float>(quant));
      }
      next += 2;
      mask = static_cast<uint8_t>(mask << 1);
    }
  }
}

// Q4_K, and Q5_K with `high` set.
void MinimaFormula(const uint8_t* block, const uint8_t* high, const uint8_t* q,
                   std::vector<float>& out) {
  const uint8_t* s = block + 4;
  for (int j = 0; j < 8; ++j) {
    const int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 0xF) | ((s[j - 4] >> 6) << 4);
    const int min = j < 4 ? s[j + 4] & 63 : (s[j + 4] >> 4) | ((s[j] >> 6) << 4);
    const float dl = HalfAt(block) * static_cast<float>(scale);
    const float ml = HalfAt(block + 2) * static_cast<float>(min);
    for (int l = 0; l < 32; ++l) {
      int quant = j % 2 == 0 ? q[l] & 0xF : q[l] >> 4;
      if (high != nullptr && (high[l] & (1 << j)) != 0) quant += 16;
      out.push_back(dl * static_cast<float>(quant) - ml);
    }
    if (j % 2 == 1) q += 32;
  }
}

void Q6Formula(const uint8_t* block, std::vector<float>& out) {
  out.resize(256);
  for (int n = 0; n < 2; ++n) {
    const uint8_t* ql = block + 64 * n;
    const uint8_t* qh = block + 128 + 32 * n;
    const int8_t* sc = reinterpret_cast<const int8_t*>(block + 192 + 8 * n);
    for (int l = 0; l < 32; ++l) {
      const int quants[4] = {
          (ql[l] & 0xF) | ((qh[l] & 3) << 4), (ql[l + 32] & 0xF) | (((qh[l] >> 2) & 3) << 4),
          (ql[l] >> 4) | (((qh[l] >> 4) & 3) << 4), (ql[l + 32] >> 4) | (((qh[l] >> 6) & 3) << 4)};
      for (int k = 0; k < 4; ++k) {
        const float dl = HalfAt(block + 208) * static_cast<float>(sc[l / 16 + 2 * k]);
        out[128 * n + 32 * k + l] = dl * static_cast<float>(quants[k] - 32);
      }
    }
  }
}

std::vector<float> Formula(TensorType type, const uint8_t* block) {
  std::vector<float> out;
  switch (type) {
    case TensorType::kQ8_0:
      Q8Formula(block, out);
      break;
    case TensorType::kQ2_K:
      Q2Formula(block, out);
      break;
    case TensorType::kQ3_K:
      Q3Formula(block, out);
      break;
    case TensorType::kQ4_K:
      MinimaFormula(block, nullptr, block + 16, out);
      break;
    case TensorType::kQ5_K:
      MinimaFormula(block, block + 16, block + 48, out);
      break;
    case TensorType::kQ6_K:
      Q6Formula(block, out);
      break;
    default:
      SmallBlockFormula(type, block, out);
  }
  return out;
}

uint64_t HashOfBits(const std::vector<float>& values) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (float value : values) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ ((bits >> shift) & 255)) * 0x100000001B3u;
    }
  }
  return hash;
}

TEST(DequantizeRow, EqualsTheFormulaBitForBitOnRandomBlocks) {
  for (TensorType type : kBlockTypes) {
    const size_t elements = static_cast<size_t>(Traits(type).block_elements);
    for (uint64_t seed = 0; seed < 200; ++seed) {
      std::vector<uint8_t> blocks = RandomBlock(type, seed * 2);
      const std::vector<uint8_t> second = RandomBlock(type, seed * 2 + 1);
      blocks.insert(blocks.end(), second.begin(), second.end());
      std::vector<float> expected = Formula(type, blocks.data());
      const std::vector<float> tail = Formula(type, second.data());
      expected.insert(expected.end(), tail.begin(), tail.end());
      std::vector<float> out(2 * elements);
      ASSERT_TRUE(DequantizeRow(type, blocks, out).ok());
      ASSERT_EQ(HashOfBits(out), HashOfBits(expected)) << Traits(type).name << " seed " << seed;
    }
  }
}

struct KnownBlock {
  TensorType type;
  std::string_view hex;
  float first, last;
  uint64_t hash;  // FNV-1a of the bytes of all values
};

// Computed with tests/data/gguf_numpy.py.
constexpr KnownBlock kKnownBlocks[] = {
    // random bytes
    {TensorType::kQ4_0, "8b22e5f1a94106a0956a26afbccdafe562f9", -0.03833770751953125f,
     0.08945465087890625f, 0xE02222C4D3F07242u},
    // smollm2-135m-instruct-q4_1: blk.0.ffn_down.weight, block 3
    {TensorType::kQ4_1, "092d48b8650742b74b796e35995c0634a4f940b8", -0.14178466796875f,
     0.33026123046875f, 0xD0051B2D3D4630BEu},
    // qwen2.5-coder-0.5b-instruct-q4_k_m: token_embd.weight, block 3
    {TensorType::kQ5_0, "881a4347fd1c37f4395f3e2cdb3ee1e7515a0d50e1cc", 0.0223236083984375f,
     -0.01275634765625f, 0x4C9AF7D65323FA09u},
    // random bytes
    {TensorType::kQ5_1, "5f2693a642276ad5ab2da7394551370e99b2d74c3427fa48", 0.248077392578125f,
     0.4720611572265625f, 0x3DFBE625481A19E7u},
    // smollm2-135m-instruct-q4_1: token_embd.weight, block 3
    {TensorType::kQ8_0, "3018d9fe8e811ac0ff0506080b2d5b1ee317f71fda0becbb1e1cc0ba9e14bc2b0faf",
     -0.079742431640625f, -0.165618896484375f, 0x92605791CD0A9463u},
    // random bytes
    {TensorType::kQ2_K,
     "d732a1df70aca1e926115901dd06f27f8f063cd25e19a621f9bd0ccc21397c1ec795ca7748dc03d1"
     "7a88934d85527357a2e64647f03e2fb81f223f4192c58efd5185f0711ef7677a1f132a818d882195"
     "a120b2a5",
     0.47907257080078125f, 0.4269561767578125f, 0x689C8D483FE8B865u},
    // random bytes
    {TensorType::kQ3_K,
     "6b236b82481bd9fe630dc3ce3be4ebcab72f45b35223479f6e794d57037e2cfde9e15a7789781e37"
     "21a557d8e5a703296dcb81db3f65cf9c1bdc5d1d8fc83f0b0bb4db71be572209851d3d24f4c0cf83"
     "fe4363f82f4759778955f6ced681cbea7179ced2c8f814a13472ff70ce26",
     -0.824005126953125f, -0.47845458984375f, 0xD91D9B646DAAFFA4u},
    // qwen2.5-coder-0.5b-instruct-q4_k_m: blk.11.ffn_down.weight, block 3
    {TensorType::kQ4_K,
     "8e01d409f3f4e5b4e9fcadbbffede0ffbef8b5c59896d4b267af57c68a6997c655c874b87875e786"
     "56c1a0cb89890883026bcaab7a8d78956f84caa6eae34aaac8e4698858ba9a437c707c78b6a3896c"
     "405857a6f70bfb88bf96cab9a6aa674596b9554566ba99a9f7a7c84abc9696787b3cbb78387909b4"
     "55e93b73c8c8718a7a3478b853a0778c99987e473c4a5654",
     0.009645700454711914f, -0.0027846097946166992f, 0x582732CB7892E73Du},
    // random bytes
    {TensorType::kQ5_K,
     "85252a24f318337f08cd1e614f235d3f83bc45fee9ee0403a79be118544441317c9311f85e0429b1"
     "9f7ec0e156f65a3322e791b880ee995e3f0d307d2fbaf400693a179e0d027ed4e58be7a9ebc28a27"
     "1d43a78855638144eb6603f7b2725de11fe6ac2f88a68182869793f0aad6ded8116e3ab51681c4a3"
     "74fec70a68b3e4bdc92b387987416c17ec90963ec766888ab4b80eba7c5cfd81121bea9cee1810df"
     "d5169faf26cd7b5c30c8aba44d972299",
     19.662567138671875f, 5.7063751220703125f, 0x7B1C9375D68E5BC6u},
    // qwen2.5-coder-0.5b-instruct-q4_k_m: blk.0.ffn_down.weight, block 3
    {TensorType::kQ6_K,
     "810fee494f46ec09c795656e1121baf5b4ff0aca8a2ead09a6f5ec99d061e91d91a33b598d825ff9"
     "fe201537791c254476e72b6aa244a8ab0be21661cc303dc661e98cb0a35af20d161560e58e6f3e81"
     "1106552043e643f79f1a2d53ee1064abb2e1203bca1004b70bb9318203b15f2c01398bb8262ec1e0"
     "f8dc3a34545b43894098a5a5e575984a7ead21997987618871d585916ee5a856119fec6d12909660"
     "9a5da194553a9b45a7589aa29a6996aa36d5365c9e9a656161cdd12625d6a628d823ddedd75e6120"
     "4a4c39eb30cf80d36581",
     -0.026385784149169922f, -0.02298116683959961f, 0x3DFA69ABD0113170u},

};

std::vector<uint8_t> FromHex(std::string_view hex) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

TEST(DequantizeRow, EqualsAnIndependentReaderOnRealAndRandomBlocks) {
  for (const KnownBlock& known : kKnownBlocks) {
    std::vector<float> out(static_cast<size_t>(Traits(known.type).block_elements));
    ASSERT_TRUE(DequantizeRow(known.type, FromHex(known.hex), out).ok());
    EXPECT_EQ(out.front(), known.first) << Traits(known.type).name;
    EXPECT_EQ(out.back(), known.last) << Traits(known.type).name;
    EXPECT_EQ(HashOfBits(out), known.hash) << Traits(known.type).name;
  }
}

TEST(DequantizeRow, PlainTypesKeepTheirBits) {
  const std::vector<float> values = {0.0f, -0.0f, 1.5f, -2.25f, 1e-3f, 1e30f};
  std::vector<uint8_t> bytes(values.size() * 4);
  std::vector<float> out(values.size());
  ASSERT_TRUE(QuantizeRow(TensorType::kF32, values, bytes).ok());
  ASSERT_TRUE(DequantizeRow(TensorType::kF32, bytes, out).ok());
  EXPECT_EQ(HashOfBits(out), HashOfBits(values));
  // Patterns by hand: 1.5 is 3E00 as a half and 3FC0 as a bfloat.
  std::vector<float> two(2);
  ASSERT_TRUE(DequantizeRow(TensorType::kF16, FromHex("003E00C0"), two).ok());
  EXPECT_EQ(two, (std::vector<float>{1.5f, -2.0f}));
  ASSERT_TRUE(DequantizeRow(TensorType::kBF16, FromHex("C03F00C0"), two).ok());
  EXPECT_EQ(two, (std::vector<float>{1.5f, -2.0f}));
}

TEST(DequantizeRow, RefusesWrongSizesAndTypes) {
  std::vector<float> out(32);
  std::vector<uint8_t> bytes(17);
  absl::Status status = DequantizeRow(TensorType::kQ4_0, bytes, out);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("take 18 bytes, found 17"));
  out.resize(33);
  status = DequantizeRow(TensorType::kQ4_0, bytes, out);
  EXPECT_THAT(std::string(status.message()), HasSubstr("33 elements are not whole blocks of Q4_0"));
  status = DequantizeRow(TensorType::kI32, bytes, out);
  EXPECT_THAT(std::string(status.message()), HasSubstr("I32 is not a weight type"));
}

// Largest error of a value, as a share of the largest magnitude in its block.
double AllowedError(TensorType type) {
  switch (type) {
    case TensorType::kQ8_0:
      return 0.5 / 127 + 0.001;
    case TensorType::kQ6_K:
      return 0.04;
    case TensorType::kQ5_0:
    case TensorType::kQ5_1:
    case TensorType::kQ5_K:
      return 0.08;
    case TensorType::kQ4_0:
    case TensorType::kQ4_1:
    case TensorType::kQ4_K:
      return 0.16;
    default:
      return 0.45;  // two and three bits
  }
}

TEST(QuantizeRow, ComesBackNearTheValues) {
  for (TensorType type : kBlockTypes) {
    const size_t elements = static_cast<size_t>(Traits(type).block_elements);
    for (uint64_t seed = 0; seed < 50; ++seed) {
      std::vector<float> values(elements);
      for (size_t i = 0; i < elements; ++i) {
        values[i] =
            static_cast<float>(2 * UniformOpen(RandomWord(seed, static_cast<uint32_t>(i))) - 1);
      }
      std::vector<uint8_t> bytes(Traits(type).block_bytes);
      std::vector<float> out(elements);
      ASSERT_TRUE(QuantizeRow(type, values, bytes).ok());
      ASSERT_TRUE(DequantizeRow(type, bytes, out).ok());
      for (size_t i = 0; i < elements; ++i) {
        ASSERT_NEAR(out[i], values[i], AllowedError(type)) << Traits(type).name << " " << i;
      }
    }
  }
}

TEST(QuantizeRow, ZerosAndConstantsSurvive) {
  for (TensorType type : kBlockTypes) {
    const size_t elements = static_cast<size_t>(Traits(type).block_elements);
    std::vector<uint8_t> bytes(Traits(type).block_bytes);
    std::vector<float> out(elements, 1.0f);
    ASSERT_TRUE(QuantizeRow(type, std::vector<float>(elements, 0.0f), bytes).ok());
    ASSERT_TRUE(DequantizeRow(type, bytes, out).ok());
    EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float v) { return v == 0.0f; }))
        << Traits(type).name;
    ASSERT_TRUE(QuantizeRow(type, std::vector<float>(elements, -0.5f), bytes).ok());
    ASSERT_TRUE(DequantizeRow(type, bytes, out).ok());
    for (float value : out) ASSERT_NEAR(value, -0.5f, 0.01f) << Traits(type).name;
  }
}

TEST(QuantizeRow, RefusesWhatABlockCannotHold) {
  std::vector<float> values(32, 1.0f);
  std::vector<uint8_t> bytes(34);
  for (float bad : {std::nanf(""), HUGE_VALF, -1e6f}) {
    values[7] = bad;
    const absl::Status status = QuantizeRow(TensorType::kQ8_0, values, bytes);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("value 7"));
  }
}

}  // namespace
}  // namespace tahmin
