#include "base/tensor_type.h"

#include <cstdio>

namespace tahmin {
namespace {

constexpr TensorTypeTraits kSupported[] = {
    {TensorType::kF32, "F32", 1, 4, true},
    {TensorType::kF16, "F16", 1, 2, true},
    {TensorType::kQ4_0, "Q4_0", 32, sizeof(BlockQ4_0), true},
    {TensorType::kQ4_1, "Q4_1", 32, sizeof(BlockQ4_1), true},
    {TensorType::kQ5_0, "Q5_0", 32, sizeof(BlockQ5_0), true},
    {TensorType::kQ5_1, "Q5_1", 32, sizeof(BlockQ5_1), true},
    {TensorType::kQ8_0, "Q8_0", 32, sizeof(BlockQ8_0), true},
    {TensorType::kQ2_K, "Q2_K", kSuperBlock, sizeof(BlockQ2_K), true},
    {TensorType::kQ3_K, "Q3_K", kSuperBlock, sizeof(BlockQ3_K), true},
    {TensorType::kQ4_K, "Q4_K", kSuperBlock, sizeof(BlockQ4_K), true},
    {TensorType::kQ5_K, "Q5_K", kSuperBlock, sizeof(BlockQ5_K), true},
    {TensorType::kQ6_K, "Q6_K", kSuperBlock, sizeof(BlockQ6_K), true},
    {TensorType::kI8, "I8", 1, 1, false},
    {TensorType::kI16, "I16", 1, 2, false},
    {TensorType::kI32, "I32", 1, 4, false},
    {TensorType::kI64, "I64", 1, 8, false},
    {TensorType::kF64, "F64", 1, 8, false},
    {TensorType::kBF16, "BF16", 1, 2, true},
};

// Known to the format, not to this build: named so that an error can name what it met.
struct UnsupportedType {
  uint32_t number;
  std::string_view name;
};

constexpr UnsupportedType kUnsupported[] = {
    {4, "Q4_2"},        {5, "Q4_3"},     {9, "Q8_1"},   {15, "Q8_K"},       {16, "IQ2_XXS"},
    {17, "IQ2_XS"},     {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"},     {21, "IQ3_S"},
    {22, "IQ2_S"},      {23, "IQ4_XS"},  {29, "IQ1_M"}, {31, "Q4_0_4_4"},   {32, "Q4_0_4_8"},
    {33, "Q4_0_8_8"},   {34, "TQ1_0"},   {35, "TQ2_0"}, {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"},
    {38, "IQ4_NL_8_8"}, {39, "MXFP4"},   {40, "NVFP4"},
};

}  // namespace

const TensorTypeTraits* FindTensorType(uint32_t number) {
  for (const TensorTypeTraits& traits : kSupported) {
    if (static_cast<uint32_t>(traits.type) == number) return &traits;
  }
  return nullptr;
}

std::string_view TensorTypeName(uint32_t number) {
  if (const TensorTypeTraits* traits = FindTensorType(number)) return traits->name;
  for (const UnsupportedType& type : kUnsupported) {
    if (type.number == number) return type.name;
  }
  thread_local char unknown_name[24];
  const int length = std::snprintf(unknown_name, sizeof(unknown_name), "type %u", number);
  return {unknown_name, static_cast<size_t>(length)};
}

}  // namespace tahmin
