#include "kernels/matmul.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>

#include "base/check.h"
#include "gtest/gtest.h"
#include "kernels/isa.h"
#include "kernels/matmul_driver.h"
#include "kernels/random_blocks.h"
#include "kernels/reference/matmul_reference.h"

namespace tahmin::kernels {

extern const MatMulTable kMatMulAvxVnniEmulated;
extern const MatMulTable kMatMulAvx512VnniEmulated;

namespace {

std::string TypeName(TensorType type) {
  return std::string(TensorTypeName(static_cast<uint32_t>(type)));
}

PackedMatrix Pack(TensorType type, int64_t rows, int64_t columns,
                  const std::vector<uint8_t>& blocks) {
  ThreadPool pool(2);
  auto matrix = PackedMatrix::Pack(type, rows, columns, blocks, pool);
  TAHMIN_CHECK(matrix.ok());
  return *std::move(matrix);
}

// Rows of noise; every third has a few huge peaks, every eleventh is zero.
std::vector<std::vector<float>> NoisyRows(int32_t num_rows, int64_t columns, std::mt19937& rng) {
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> rows(static_cast<size_t>(num_rows));
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].resize(static_cast<size_t>(columns));
    if (i % 11 == 10) continue;
    for (float& v : rows[i]) v = normal(rng);
    if (i % 3 == 1) rows[i][rng() % rows[i].size()] = 50.0f * normal(rng);
  }
  return rows;
}

ActivationRows MakeInput(std::span<const std::vector<float>> rows, const ActivationFormat& format) {
  const int64_t columns = static_cast<int64_t>(rows[0].size());
  auto input = ActivationRows::Create(static_cast<int32_t>(rows.size()), columns);
  TAHMIN_CHECK(input.ok());
  input->Begin(static_cast<int32_t>(rows.size()), columns, format);
  for (size_t i = 0; i < rows.size(); ++i) {
    const int32_t index = static_cast<int32_t>(i);
    std::memcpy(input->row(index), rows[i].data(), rows[i].size() * sizeof(float));
    if (columns % format.block == 0) input->Quantize(index);
  }
  if (columns % format.block == 0) input->Seal();
  return *std::move(input);
}

// Which kernels run: those of an ISA, or a table with a name of its own.
struct Kernels {
  Isa isa;
  const MatMulTable* table = nullptr;
  const char* table_name = nullptr;

  std::string Name() const { return table == nullptr ? std::string(IsaName(isa)) : table_name; }
};

std::vector<Kernels> AllKernels() {
  std::vector<Kernels> all;
  for (const Isa isa : SupportedIsas()) {
    all.push_back({isa});
#ifdef TAHMIN_EMULATED_KERNELS
    if (isa == Isa::kAvx2) {
      all.push_back({isa, &kMatMulAvxVnniEmulated, "avx_vnni_emulated"});
      all.push_back({isa, &kMatMulAvx512VnniEmulated, "avx512_vnni_emulated"});
    }
#endif
  }
  return all;
}

class MatMulOnIsa : public testing::TestWithParam<std::tuple<Kernels, TensorType>> {
 protected:
  void SetUp() override { ForceIsaForTest(std::get<0>(GetParam()).isa); }
  TensorType type() const { return std::get<1>(GetParam()); }

  void Run(std::span<const MatMulJob> jobs, const ActivationRows& input, ThreadPool& pool) const {
    const MatMulTable* table = std::get<0>(GetParam()).table;
    if (table != nullptr) return MatMulWithTable(*table, jobs, input, pool);
    MatMul(jobs, input, pool);
  }

  // [num_rows][matrix.rows()]
  std::vector<float> Multiply(const PackedMatrix& matrix, const ActivationRows& input,
                              int num_threads, const float* bias = nullptr) const {
    ThreadPool pool(num_threads);
    std::vector<float> out(static_cast<size_t>(input.num_rows() * matrix.rows()), -1.0f);
    const MatMulJob job{&matrix, bias, out.data(), matrix.rows()};
    Run({&job, 1}, input, pool);
    return out;
  }

  bool IsFloat() const {
    return type() == TensorType::kF16 || type() == TensorType::kBF16 || type() == TensorType::kF32;
  }

  // Pairs of columns and activation block that the type allows, odd ones included.
  std::vector<std::pair<int64_t, int32_t>> Shapes() const {
    if (IsFloat()) return {{1, 32}, {7, 32}, {64, 32}, {300, 32}};
    const bool is_super = FindTensorType(static_cast<uint32_t>(type()))->block_elements == 256;
    std::vector<std::pair<int64_t, int32_t>> shapes = {
        {256, 32}, {256, 64}, {256, 128}, {256, 256}, {768, 32}, {768, 64}, {768, 128}, {768, 256}};
    if (!is_super) {
      shapes.insert(shapes.end(), {{32, 32}, {96, 32}, {320, 64}, {576, 64}, {384, 128}});
    }
    return shapes;
  }
};

INSTANTIATE_TEST_SUITE_P(AllTypes, MatMulOnIsa,
                         testing::Combine(testing::ValuesIn(AllKernels()),
                                          testing::ValuesIn(WeightTypes())),
                         [](const testing::TestParamInfo<std::tuple<Kernels, TensorType>>& info) {
                           return std::get<0>(info.param).Name() + "_" +
                                  TypeName(std::get<1>(info.param));
                         });

TEST_P(MatMulOnIsa, AgreesWithTheReference) {
  std::mt19937 rng(1);
  for (const auto& [columns, block] : Shapes()) {
    for (const int64_t rows : {1, 16, 37}) {
      const PackedMatrix matrix =
          Pack(type(), rows, columns, TameBlocks(type(), rows * columns, rng));
      const ActivationRows input = MakeInput(NoisyRows(7, columns, rng), {block, 4.0f});
      std::vector<float> bias(static_cast<size_t>(rows));
      for (float& b : bias) b = static_cast<float>(rng() % 100) - 50.0f;
      const std::vector<float> out = Multiply(matrix, input, 2, bias.data());
      const reference::MatMulResult expected = reference::MatMul(matrix, bias.data(), input);
      for (size_t i = 0; i < out.size(); ++i) {
        ASSERT_NEAR(out[i], expected.values[i], 1e-5 * expected.magnitudes[i] + 1e-5)
            << columns << " columns, block " << block << ", output " << i;
      }
    }
  }
}

TEST_P(MatMulOnIsa, RowsHaveTheSameBitsInEveryBatchAndOnEveryThreadCount) {
  std::mt19937 rng(2);
  constexpr int64_t kRows = 37;
  constexpr int32_t kPool = 66;
  for (const auto& [columns, block] : Shapes()) {
    const PackedMatrix matrix =
        Pack(type(), kRows, columns, TameBlocks(type(), kRows * columns, rng));
    const std::vector<std::vector<float>> rows = NoisyRows(kPool, columns, rng);
    const ActivationFormat format{block, 4.0f};
    std::vector<std::vector<float>> alone;
    for (const std::vector<float>& row : rows) {
      alone.push_back(Multiply(matrix, MakeInput({&row, 1}, format), 1));
    }
    std::vector<int32_t> sizes = {33, 64};
    for (int32_t n = 2; n <= 17; ++n) sizes.push_back(n);
    for (const int32_t size : sizes) {
      const size_t first = rng() % static_cast<size_t>(kPool - size + 1);
      const std::span<const std::vector<float>> batch(rows.data() + first,
                                                      static_cast<size_t>(size));
      const ActivationRows input = MakeInput(batch, format);
      const int num_threads = std::vector<int>{1, 2, 3, 5}[static_cast<size_t>(size) % 4];
      const std::vector<float> out = Multiply(matrix, input, num_threads);
      for (size_t i = 0; i < batch.size(); ++i) {
        ASSERT_EQ(std::memcmp(out.data() + i * kRows, alone[first + i].data(), kRows * 4), 0)
            << columns << " columns, block " << block << ", batch " << size << ", row " << i;
      }
    }
  }
}

TEST_P(MatMulOnIsa, PromptOf512RowsHasTheBitsOfSingleRows) {
  std::mt19937 rng(3);
  const int64_t columns = 512;
  const PackedMatrix matrix = Pack(type(), 24, columns, TameBlocks(type(), 24 * columns, rng));
  const std::vector<std::vector<float>> rows = NoisyRows(512, columns, rng);
  const ActivationFormat format{128, 6.0f};
  const ActivationRows input = MakeInput(rows, format);
  if (!IsFloat()) {
    EXPECT_GT(input.num_residual_rows(), 50);
  }
  const std::vector<float> together = Multiply(matrix, input, 3);
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::vector<float> alone = Multiply(matrix, MakeInput({&rows[i], 1}, format), 1);
    ASSERT_EQ(std::memcmp(together.data() + i * 24, alone.data(), 24 * 4), 0) << "row " << i;
  }
}

// f16 1.0 as every d and m, and all other bytes `fill`: the largest (or most negative) quants and
// scales.
std::vector<uint8_t> ExtremeBlocks(TensorType type, int64_t elements, uint8_t fill) {
  const TensorTypeTraits* traits = FindTensorType(static_cast<uint32_t>(type));
  std::vector<uint8_t> bytes(
      static_cast<size_t>(elements / traits->block_elements) * traits->block_bytes, fill);
  for (size_t at = 0; at < bytes.size(); at += traits->block_bytes) {
    for (const size_t offset : HalfOffsets(type)) {
      bytes[at + offset] = 0x00;
      bytes[at + offset + 1] = 0x3C;
    }
  }
  return bytes;
}

TEST_P(MatMulOnIsa, LargestQuantsTimesLargestActivationsDoNotSaturate) {
  if (IsFloat()) return;  // no integers to overflow
  constexpr int64_t kColumns = 512;
  // Activations of +-127 have the scale 1, so that everything up to the float sum is an integer.
  std::vector<std::vector<float>> rows(5, std::vector<float>(kColumns, 127.0f));
  for (size_t k = 0; k < kColumns; ++k) {
    rows[1][k] = -127.0f;
    rows[2][k] = k % 2 == 0 ? 127.0f : -127.0f;
    rows[3][k] = k % 32 < 16 ? 127.0f : -127.0f;
    rows[4][k] = k % 4 < 2 ? -127.0f : 127.0f;
  }
  // 0x7F: Q6_K and Q3_K scales of +127 and +31; 0x80: Q8_0 weights and Q6_K scales of -128.
  for (const uint8_t fill : {0xFF, 0x7F, 0x80, 0x00, 0xF0, 0x0F}) {
    const PackedMatrix matrix =
        Pack(type(), 17, kColumns, ExtremeBlocks(type(), 17 * kColumns, fill));
    for (const int32_t block : {32, 64, 128, 256}) {
      const ActivationRows input = MakeInput(rows, {block, 0.0f});
      ASSERT_EQ(input.quantized_rows()[0].scales[0], 1.0f);
      const std::vector<float> out = Multiply(matrix, input, 1);
      const reference::MatMulResult expected = reference::MatMul(matrix, nullptr, input);
      for (size_t i = 0; i < out.size(); ++i) {
        ASSERT_NEAR(out[i], expected.values[i], 1e-6 * expected.magnitudes[i])
            << "fill " << static_cast<int>(fill) << ", block " << block << ", output " << i;
      }
    }
  }
}

TEST_P(MatMulOnIsa, HostileScalesGiveFloatsNotFaults) {
  std::mt19937 rng(4);
  const PackedMatrix matrix = Pack(type(), 33, 256, RandomBytes(type(), 33 * 256, rng));
  const std::vector<float> out = Multiply(matrix, MakeInput(NoisyRows(5, 256, rng), {32, 4.0f}), 2);
  EXPECT_EQ(out.size(), 5u * 33u);
}

TEST_P(MatMulOnIsa, NanActivationSurfacesInItsRowOnly) {
  std::mt19937 rng(5);
  const PackedMatrix matrix = Pack(type(), 20, 256, TameBlocks(type(), 20 * 256, rng));
  std::vector<std::vector<float>> rows = NoisyRows(3, 256, rng);
  rows[1][100] = std::nanf("");
  const std::vector<float> out = Multiply(matrix, MakeInput(rows, {64, 4.0f}), 1);
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isnan(out[i]), i / 20 == 1) << i;
}

TEST_P(MatMulOnIsa, JobsOfOneCallEqualSeparateCalls) {
  std::mt19937 rng(6);
  const ActivationRows input = MakeInput(NoisyRows(6, 256, rng), {64, 4.0f});
  const std::vector<int64_t> sizes = {1, 48, 530};
  std::vector<PackedMatrix> matrices;
  std::vector<std::vector<float>> outs;
  for (const int64_t rows : sizes) {
    matrices.push_back(Pack(type(), rows, 256, TameBlocks(type(), rows * 256, rng)));
    outs.emplace_back(static_cast<size_t>(6 * (rows + 5)), 7.0f);
  }
  std::vector<float> bias(530, 0.5f);
  std::vector<MatMulJob> jobs;
  for (size_t j = 0; j < sizes.size(); ++j) {
    jobs.push_back({&matrices[j], bias.data(), outs[j].data(), sizes[j] + 5});
  }
  ThreadPool pool(3);
  Run(jobs, input, pool);
  for (size_t j = 0; j < sizes.size(); ++j) {
    const std::vector<float> expected = Multiply(matrices[j], input, 1, bias.data());
    const size_t rows = static_cast<size_t>(sizes[j]);
    for (size_t i = 0; i < 6; ++i) {
      const float* row = outs[j].data() + i * (rows + 5);
      EXPECT_EQ(std::memcmp(row, expected.data() + i * rows, rows * 4), 0);
      for (size_t k = 0; k < 5; ++k) EXPECT_EQ(row[rows + k], 7.0f) << "wrote past the row";
    }
  }
}

// Every kernel that this CPU can run is among those tested above. Skipped, and so reported, where a
// kernel of this build has not run natively.
TEST(MatMulKernels, AllRunOnThisCpu) {
#if defined(__x86_64__)
  const std::vector<Isa> compiled = {Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512Vnni};
#elif defined(__aarch64__)
  const std::vector<Isa> compiled = {Isa::kNeonDot};
#else
  const std::vector<Isa> compiled;
#endif
  std::string lacking;
  for (const Isa isa : compiled) {
    if (std::ranges::count(SupportedIsas(), isa) == 0) {
      lacking += " " + std::string(IsaName(isa));
      continue;
    }
    const auto is_tested = [isa](const Kernels& kernels) {
      return kernels.isa == isa && kernels.table == nullptr;
    };
    EXPECT_EQ(std::ranges::count_if(AllKernels(), is_tested), 1) << IsaName(isa);
  }
  if (!lacking.empty()) GTEST_SKIP() << "not run natively, the CPU lacks them:" << lacking;
}

#ifdef TAHMIN_EMULATED_KERNELS

// Integers are exact and the float steps the same, so that these three agree to the bit.
TEST(VnniKernels, HaveTheBitsOfAvx2) {
  if (std::ranges::count(SupportedIsas(), Isa::kAvx2) == 0) GTEST_SKIP() << "no AVX2 here";
  ForceIsaForTest(Isa::kAvx2);
  std::mt19937 rng(7);
  ThreadPool pool(2);
  for (const TensorType type : WeightTypes()) {
    const PackedMatrix matrix = Pack(type, 32, 512, TameBlocks(type, 32 * 512, rng));
    if (matrix.is_float()) continue;
    for (const int32_t block : {32, 64, 128, 256}) {
      const ActivationRows input = MakeInput(NoisyRows(12, 512, rng), {block, 4.0f});
      std::vector<float> outs[3];
      const MatMulTable* tables[] = {&kMatMulAvx2, &kMatMulAvxVnniEmulated,
                                     &kMatMulAvx512VnniEmulated};
      for (int i = 0; i < 3; ++i) {
        outs[i].resize(12 * 32);
        const MatMulJob job{&matrix, nullptr, outs[i].data(), 32};
        MatMulWithTable(*tables[i], {&job, 1}, input, pool);
      }
      for (int i = 1; i < 3; ++i) {
        EXPECT_EQ(std::memcmp(outs[0].data(), outs[i].data(), outs[0].size() * 4), 0)
            << TypeName(type) << ", block " << block << ", table " << i;
      }
    }
  }
  ForceIsaForTest(SupportedIsas().back());
}

#endif

}  // namespace
}  // namespace tahmin::kernels
