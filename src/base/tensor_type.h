// The element types of GGUF tensors: their numbers in the file, names, block sizes, and the exact
// byte layout of one block. Values are those of the GGUF format as ggml defines it; every
// multi-byte field is little-endian. Which value a block stands for is defined by
// gguf/dequantize.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tahmin {

enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kBF16 = 30,
};

struct TensorTypeTraits {
  TensorType type;
  std::string_view name;   // "Q4_K", as llama.cpp prints it
  int64_t block_elements;  // 1 for plain types, 32 or 256
  size_t block_bytes;
  bool is_weight;  // may be a matrix of a model (integers and F64 may not)
};

// nullptr for a number that this build does not know. TensorTypeName gives a name also for the
// known but unsupported types ("IQ4_XS", "TQ1_0", "MXFP4", ...), else "type <n>", which lives until
// the thread asks for another such name.
const TensorTypeTraits* FindTensorType(uint32_t number);
std::string_view TensorTypeName(uint32_t number);

constexpr int64_t kSuperBlock = 256;

struct BlockQ4_0 {
  uint16_t d;
  uint8_t qs[16];
};
struct BlockQ4_1 {
  uint16_t d, m;
  uint8_t qs[16];
};
struct BlockQ5_0 {
  uint16_t d;
  uint8_t qh[4];
  uint8_t qs[16];
};
struct BlockQ5_1 {
  uint16_t d, m;
  uint8_t qh[4];
  uint8_t qs[16];
};
struct BlockQ8_0 {
  uint16_t d;
  int8_t qs[32];
};
struct BlockQ2_K {
  uint8_t scales[16];
  uint8_t qs[64];
  uint16_t d, dmin;
};
struct BlockQ3_K {
  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];
  uint16_t d;
};
struct BlockQ4_K {
  uint16_t d, dmin;
  uint8_t scales[12];
  uint8_t qs[128];
};
struct BlockQ5_K {
  uint16_t d, dmin;
  uint8_t scales[12];
  uint8_t qh[32];
  uint8_t qs[128];
};
struct BlockQ6_K {
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  uint16_t d;
};

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24 && sizeof(BlockQ8_0) == 34 && sizeof(BlockQ2_K) == 84);
static_assert(sizeof(BlockQ3_K) == 110 && sizeof(BlockQ4_K) == 144 && sizeof(BlockQ5_K) == 176);
static_assert(sizeof(BlockQ6_K) == 210);

}  // namespace tahmin
