// How the inputs of the matrices are quantised: which rows get a residual row, for narrow and for
// wide ones.
#include "model/activation_formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/thread_pool.h"
#include "kernels/random_blocks.h"

namespace tahmin {
namespace {

kernels::PackedMatrix Packed(TensorType type, int64_t columns) {
  ThreadPool pool(1);
  std::mt19937 rng(1);
  const std::vector<uint8_t> blocks = kernels::TameBlocks(type, 16 * columns, rng);
  absl::StatusOr<kernels::PackedMatrix> matrix =
      kernels::PackedMatrix::Pack(type, 16, columns, blocks, pool);
  EXPECT_TRUE(matrix.ok()) << matrix.status();
  return *std::move(matrix);
}

kernels::ActivationFormat HeadFormat(TensorType type, int64_t columns) {
  const kernels::PackedMatrix head = Packed(type, columns);
  return ChooseActivationFormats({}, head).output_head;
}

// One value that holds `share` of the row's energy among ones.
bool HasResidualRow(int64_t columns, double share, const kernels::ActivationFormat& format) {
  auto rows = kernels::ActivationRows::Create(1, columns);
  EXPECT_TRUE(rows.ok()) << rows.status();
  rows->Begin(1, columns, format);
  for (int64_t i = 0; i < columns; ++i) rows->row(0)[i] = i % 2 == 0 ? 1.0f : -1.0f;
  const double others = static_cast<double>(columns - 1);
  rows->row(0)[columns / 3] = static_cast<float>(std::sqrt(others * share / (1.0 - share)));
  rows->Quantize(0);
  rows->Seal();
  return rows->quantized_rows().size() == 2;
}

class ResidualRowsTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(ResidualRowsTest, OfARowOneValueOfWhichHoldsAQuarterOfTheEnergy) {
  const kernels::ActivationFormat format = HeadFormat(TensorType::kQ4_K, GetParam());
  EXPECT_EQ(format.block, 256);
  EXPECT_FALSE(HasResidualRow(GetParam(), 0.24, format));
  EXPECT_TRUE(HasResidualRow(GetParam(), 0.26, format));
}

INSTANTIATE_TEST_SUITE_P(Widths, ResidualRowsTest, ::testing::Values(256, 1536, 4864, 8960));

TEST(ActivationFormatsTest, BlocksOf32NeedNoResidualRows) {
  const kernels::ActivationFormat format = HeadFormat(TensorType::kQ8_0, 1536);
  EXPECT_EQ(format.block, 32);
  EXPECT_FALSE(HasResidualRow(1536, 0.9, format));
}

TEST(ActivationFormatsTest, SaysTheThresholdOfEachWidth) {
  const kernels::PackedMatrix head = Packed(TensorType::kQ6_K, 1536);
  EXPECT_NE(DescribeFormats(ChooseActivationFormats({}, head))
                .find("output head: block 256, residual above 19.6 x rms"),
            std::string::npos);
}

}  // namespace
}  // namespace tahmin
