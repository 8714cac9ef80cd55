#include "kernels/packed_matrix.h"

#include <cmath>
#include <cstring>

#include "gguf/dequantize.h"
#include "gtest/gtest.h"
#include "kernels/random_blocks.h"

namespace tahmin::kernels {
namespace {

const TensorTypeTraits& Traits(TensorType type) {
  return *FindTensorType(static_cast<uint32_t>(type));
}

std::string TypeName(const testing::TestParamInfo<TensorType>& info) {
  return std::string(Traits(info.param).name);
}

class PackedMatrixOfType : public testing::TestWithParam<TensorType> {};

INSTANTIATE_TEST_SUITE_P(AllTypes, PackedMatrixOfType, testing::ValuesIn(WeightTypes()), TypeName);

void ExpectUnpacksExactly(TensorType type, int64_t rows, int64_t columns, std::mt19937& rng,
                          ThreadPool& pool) {
  const std::vector<uint8_t> blocks = RandomBytes(type, rows * columns, rng);
  const auto matrix = PackedMatrix::Pack(type, rows, columns, blocks, pool);
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  EXPECT_EQ(matrix->packed_bytes(), PackedMatrix::PackedBytes(type, rows, columns));
  const size_t row_bytes = blocks.size() / static_cast<size_t>(rows);
  std::vector<float> expected(static_cast<size_t>(columns));
  std::vector<float> unpacked(static_cast<size_t>(columns));
  for (int64_t row = 0; row < rows; ++row) {
    const std::span<const uint8_t> bytes(blocks.data() + row * row_bytes, row_bytes);
    ASSERT_TRUE(DequantizeRow(type, bytes, expected).ok());
    matrix->UnpackRow(row, unpacked);
    for (int64_t k = 0; k < columns; ++k) {
      if (std::isnan(expected[k]) && std::isnan(unpacked[k])) continue;
      ASSERT_EQ(std::memcmp(&expected[k], &unpacked[k], sizeof(float)), 0)
          << "row " << row << " column " << k << ": " << expected[k] << " " << unpacked[k];
    }
  }
}

TEST_P(PackedMatrixOfType, UnpacksEveryBitPatternExactly) {
  const TensorType type = GetParam();
  std::mt19937 rng(7);
  ThreadPool pool(3);
  const int64_t block = Traits(type).block_elements;
  for (const int64_t rows : {1, 15, 16, 17, 50}) {
    for (const int64_t blocks : {1, 2, 3, 9}) {
      ExpectUnpacksExactly(type, rows, blocks * block, rng, pool);
    }
  }
}

TEST_P(PackedMatrixOfType, PackedFormDoesNotDependOnThreads) {
  const TensorType type = GetParam();
  std::mt19937 rng(8);
  ThreadPool one(1);
  ThreadPool five(5);
  const std::vector<uint8_t> blocks = RandomBytes(type, 90 * 512, rng);
  const auto a = PackedMatrix::Pack(type, 90, 512, blocks, one);
  const auto b = PackedMatrix::Pack(type, 90, 512, blocks, five);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(std::memcmp(a->group(0), b->group(0), a->packed_bytes()), 0);
}

// Slices tell their rows in order and change no bit; each row group is whole within one of them.
TEST_P(PackedMatrixOfType, SlicesAreToldInOrderAndChangeNothing) {
  const TensorType type = GetParam();
  std::mt19937 rng(10);
  ThreadPool pool(3);
  const std::vector<uint8_t> blocks = RandomBytes(type, 90 * 512, rng);
  const auto whole = PackedMatrix::Pack(type, 90, 512, blocks, pool);
  std::vector<std::pair<int64_t, int64_t>> slices;
  SlicedPool sliced(pool);
  sliced.slice_rows = 17;
  sliced.on_done = [&](int64_t begin, int64_t end) { slices.push_back({begin, end}); };
  const auto parts = PackedMatrix::Pack(type, 90, 512, blocks, sliced);
  ASSERT_TRUE(whole.ok() && parts.ok());
  EXPECT_EQ(std::memcmp(whole->group(0), parts->group(0), whole->packed_bytes()), 0);
  using Slices = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(slices, (Slices{{0, 32}, {32, 64}, {64, 90}}));
  sliced.slice_rows = 1 << 30;
  ASSERT_TRUE(PackedMatrix::Pack(type, 90, 512, blocks, sliced).ok());
  EXPECT_EQ(slices.back(), (std::pair<int64_t, int64_t>{0, 90}));
}

TEST_P(PackedMatrixOfType, TakesLittleMoreThanTheFile) {
  const TensorType type = GetParam();
  const auto [rows, columns] = std::pair<int64_t, int64_t>{1536, 8960};
  const size_t file_bytes =
      static_cast<size_t>(rows * columns / Traits(type).block_elements) * Traits(type).block_bytes;
  // The rare types go through the next wider layout.
  const double bound = type == TensorType::kQ2_K || type == TensorType::kQ3_K ? 2.0 : 1.04;
  EXPECT_LE(static_cast<double>(PackedMatrix::PackedBytes(type, rows, columns)),
            bound * static_cast<double>(file_bytes));
}

TEST_P(PackedMatrixOfType, RefusesBytesThatDoNotMatchTheShape) {
  const TensorType type = GetParam();
  std::mt19937 rng(9);
  ThreadPool pool(1);
  std::vector<uint8_t> blocks = RandomBytes(type, 3 * 256, rng);
  blocks.pop_back();
  EXPECT_EQ(PackedMatrix::Pack(type, 3, 256, blocks, pool).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(PackedMatrix::Pack(type, 0, 256, {}, pool).status().code(),
            absl::StatusCode::kInvalidArgument);
  if (Traits(type).block_elements == 1) return;
  EXPECT_EQ(PackedMatrix::Pack(type, 3, 257, blocks, pool).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(PackedMatrix, RefusesTypesThatAreNoWeights) {
  ThreadPool pool(1);
  for (const TensorType type : {TensorType::kI8, TensorType::kI32, TensorType::kF64}) {
    EXPECT_EQ(PackedMatrix::Pack(type, 1, 32, {}, pool).status().code(),
              absl::StatusCode::kUnimplemented);
    EXPECT_EQ(PackedMatrix::PackedBytes(type, 1, 32), 0u);
  }
}

}  // namespace
}  // namespace tahmin::kernels
