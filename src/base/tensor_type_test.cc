#include "base/tensor_type.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace tahmin {
namespace {

TEST(TensorType, FindsEverySupportedType) {
  int num_found = 0;
  for (uint32_t number = 0; number < 64; ++number) {
    const TensorTypeTraits* traits = FindTensorType(number);
    if (traits == nullptr) continue;
    ++num_found;
    EXPECT_EQ(static_cast<uint32_t>(traits->type), number);
    EXPECT_EQ(TensorTypeName(number), traits->name);
    EXPECT_TRUE(traits->block_elements == 1 || traits->block_elements == 32 ||
                traits->block_elements == kSuperBlock);
  }
  EXPECT_EQ(num_found, 18);
}

TEST(TensorType, BlockSizes) {
  const TensorTypeTraits* q4_k = FindTensorType(12);
  ASSERT_NE(q4_k, nullptr);
  EXPECT_EQ(q4_k->name, "Q4_K");
  EXPECT_EQ(q4_k->block_elements, 256);
  EXPECT_EQ(q4_k->block_bytes, 144u);
  EXPECT_TRUE(q4_k->is_weight);
  EXPECT_EQ(FindTensorType(8)->block_bytes, 34u);
  EXPECT_EQ(FindTensorType(30)->block_bytes, 2u);
  EXPECT_FALSE(FindTensorType(26)->is_weight);
}

TEST(TensorType, UnsupportedTypesHaveNamesOnly) {
  EXPECT_EQ(FindTensorType(23), nullptr);
  EXPECT_EQ(TensorTypeName(23), "IQ4_XS");
  EXPECT_EQ(TensorTypeName(34), "TQ1_0");
  EXPECT_EQ(TensorTypeName(39), "MXFP4");
}

TEST(TensorType, UnknownNumbersAreNamedByNumber) {
  EXPECT_EQ(FindTensorType(4294967295u), nullptr);
  EXPECT_EQ(TensorTypeName(4294967295u), "type 4294967295");
  EXPECT_EQ(TensorTypeName(99), "type 99");
}

TEST(TensorType, NamesAreDistinct) {
  std::set<std::string> names;
  for (uint32_t number = 0; number < 64; ++number) names.emplace(TensorTypeName(number));
  EXPECT_EQ(names.size(), 64u);
}

}  // namespace
}  // namespace tahmin
