// Matrix products at the shapes of a 1.5B model, streamed from memory: T(n) for n activation rows,
// weight bytes and multiply-adds per second. Each shape cycles through copies that no cache holds.
// Run with
//   --benchmark_enable_random_interleaving=true --benchmark_repetitions=9 --benchmark_format=json
// since only ratios inside one run mean anything on a shared machine. TAHMIN_ISA picks the ISA.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/check.h"
#include "benchmark/benchmark.h"
#include "fmt/format.h"
#include "kernels/isa.h"
#include "kernels/machine_limits.h"
#include "kernels/matmul.h"
#include "kernels/random_blocks.h"
#include "kernels/reference/matmul_reference.h"

namespace tahmin::kernels {
namespace {

constexpr size_t kStreamedBytes = 200u << 20;

int EnvironmentNumber(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

// As many as no cache holds. TAHMIN_BENCH_CACHED=1: a single one, which stays in a cache that is
// large enough, so that arithmetic can be told from memory.
size_t NumCopies(size_t bytes) {
  static const bool is_cached = EnvironmentNumber("TAHMIN_BENCH_CACHED") != 0;
  return is_cached ? 1 : std::max<size_t>(1, kStreamedBytes / bytes);
}

struct Shape {
  TensorType type;
  int64_t rows;
  int64_t columns;
  int32_t block;

  bool operator<(const Shape& other) const {
    return std::tie(type, rows, columns) < std::tie(other.type, other.rows, other.columns);
  }
  std::string Name() const {
    return fmt::format("{}/{}x{}/B{}", TensorTypeName(static_cast<uint32_t>(type)), rows, columns,
                       block);
  }
};

// TAHMIN_BENCH_THREADS, else all cores. With 1, the CPU time stays meaningful on a busy machine.
int NumThreads() {
  const int asked = EnvironmentNumber("TAHMIN_BENCH_THREADS");
  return asked > 0 ? asked : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

ThreadPool& Pool() {
  static ThreadPool& pool = *new ThreadPool(NumThreads());
  return pool;
}

// The copies of the shape in use; one shape is kept at a time.
const std::vector<PackedMatrix>& Copies(const Shape& shape) {
  static std::map<Shape, std::vector<PackedMatrix>>& all =
      *new std::map<Shape, std::vector<PackedMatrix>>();
  std::vector<PackedMatrix>& copies = all[shape];
  if (!copies.empty()) return copies;
  std::mt19937 rng(1);
  const std::vector<uint8_t> blocks = TameBlocks(shape.type, shape.rows * shape.columns, rng);
  const size_t bytes = PackedMatrix::PackedBytes(shape.type, shape.rows, shape.columns);
  for (size_t i = 0; i < NumCopies(bytes); ++i) {
    auto matrix = PackedMatrix::Pack(shape.type, shape.rows, shape.columns, blocks, Pool());
    TAHMIN_CHECK(matrix.ok());
    copies.push_back(*std::move(matrix));
  }
  return copies;
}

ActivationRows NoiseRows(int32_t num_rows, const Shape& shape) {
  auto input = ActivationRows::Create(num_rows, shape.columns);
  TAHMIN_CHECK(input.ok());
  input->Begin(num_rows, shape.columns, {shape.block, 0.0f});
  std::mt19937 rng(2);
  std::normal_distribution<float> normal;
  for (int32_t i = 0; i < num_rows; ++i) {
    for (int64_t k = 0; k < shape.columns; ++k) input->row(i)[k] = normal(rng);
    input->Quantize(i);
  }
  input->Seal();
  return *std::move(input);
}

// The first 16 outputs of every row, against the oracle.
bool IsRight(const Shape& shape, const ActivationRows& input, const std::vector<float>& out) {
  std::mt19937 rng(1);
  const std::vector<uint8_t> blocks = TameBlocks(shape.type, shape.rows * shape.columns, rng);
  const size_t row_bytes = blocks.size() / static_cast<size_t>(shape.rows);
  auto first = PackedMatrix::Pack(shape.type, kRowGroup, shape.columns,
                                  {blocks.data(), kRowGroup * row_bytes}, Pool());
  TAHMIN_CHECK(first.ok());
  const reference::MatMulResult expected = reference::MatMul(*first, nullptr, input);
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const float value = out[i / kRowGroup * static_cast<size_t>(shape.rows) + i % kRowGroup];
    const double error = std::fabs(static_cast<double>(value) - expected.values[i]);
    if (!(error <= 1e-5 * expected.magnitudes[i])) return false;
  }
  return true;
}

void Run(benchmark::State& state, const Shape& shape) {
  const int32_t num_rows = static_cast<int32_t>(state.range(0));
  const std::vector<PackedMatrix>& copies = Copies(shape);
  const ActivationRows input = NoiseRows(num_rows, shape);
  std::vector<float> out(static_cast<size_t>(num_rows * shape.rows));
  size_t next = 0;
  const auto multiply = [&] {
    const MatMulJob job{&copies[next++ % copies.size()], nullptr, out.data(), shape.rows};
    MatMul({&job, 1}, input, Pool());
  };
  multiply();
  if (!IsRight(shape, input, out)) return state.SkipWithError("wrong result");
  for (auto _ : state) multiply();
  const double bytes = static_cast<double>(copies[0].packed_bytes());
  const double macs = static_cast<double>(shape.rows * shape.columns * num_rows);
  using benchmark::Counter;
  state.counters["weight_bytes"] = Counter(bytes, Counter::kIsIterationInvariantRate);
  state.counters["macs"] = Counter(macs, Counter::kIsIterationInvariantRate);
}

// What the machine gives in the same run: reads of memory that no cache holds, by prefetch
// distance.
void StreamingRead(benchmark::State& state) {
  static const std::vector<uint8_t>& buffer = *new std::vector<uint8_t>(kStreamedBytes, 1);
  double sum = 0.0;
  for (auto _ : state) sum += MeasureStreamingRead(buffer, state.range(0), Pool());
  state.counters["weight_bytes"] = benchmark::Counter(sum, benchmark::Counter::kAvgIterations);
}

// And the int8 multiply-adds of the ISA in use, from registers.
void Int8Peak(benchmark::State& state) {
  double sum = 0.0;
  for (auto _ : state) sum += MeasureInt8Macs(Pool());
  state.counters["macs"] = benchmark::Counter(sum, benchmark::Counter::kAvgIterations);
}

void RegisterLimits() {
  auto* reads = benchmark::RegisterBenchmark("Limit/StreamingRead", StreamingRead);
  reads->ArgName("ahead")->UseRealTime()->Unit(benchmark::kMicrosecond);
  for (const int64_t distance : StreamingPrefetchDistances()) reads->Arg(distance);
  benchmark::RegisterBenchmark("Limit/Int8Peak", Int8Peak)
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}

void RegisterAll() {
  RegisterLimits();
  const std::vector<Shape> shapes = {
      {TensorType::kQ4_K, 8960, 1536, 256}, {TensorType::kQ4_K, 8960, 1536, 64},
      {TensorType::kQ4_K, 1536, 8960, 256}, {TensorType::kQ6_K, 1536, 8960, 256},
      {TensorType::kQ6_K, 1536, 8960, 64},  {TensorType::kQ6_K, 151936, 1536, 256},
      {TensorType::kQ5_K, 8960, 1536, 256}, {TensorType::kQ4_1, 1536, 576, 64},
      {TensorType::kQ4_0, 4864, 896, 128},  {TensorType::kQ5_0, 4864, 896, 128},
      {TensorType::kQ8_0, 4864, 896, 128},  {TensorType::kF16, 4864, 896, 128},
  };
  for (const Shape& shape : shapes) {
    auto* bench =
        benchmark::RegisterBenchmark(("MatMul/" + shape.Name()).c_str(),
                                     [shape](benchmark::State& state) { Run(state, shape); });
    bench->ArgName("rows")->UseRealTime()->Unit(benchmark::kMicrosecond);
    for (const int64_t n : {1, 2, 3, 4, 5, 8, 16, 256}) bench->Arg(n);
  }
}

}  // namespace
}  // namespace tahmin::kernels

int main(int argc, char** argv) {
  const auto isa = tahmin::kernels::SelectIsa();
  if (!isa.ok()) {
    std::fprintf(stderr, "%s\n", std::string(isa.status().message()).c_str());
    return 1;
  }
  benchmark::AddCustomContext("threads", std::to_string(tahmin::kernels::NumThreads()));
  benchmark::AddCustomContext("isa", std::string(tahmin::kernels::IsaName(*isa)));
  tahmin::kernels::RegisterAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
