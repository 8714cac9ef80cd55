// Time of one layer's attention: a decode row behind a context, a few rows of verification, a
// prefill chunk. Shapes are those of SmolLM2-135M (9/3 x 64) and Qwen2.5-1.5B (12/2 x 128). Each
// case is checked against the reference before it is timed.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "base/half.h"
#include "base/thread_pool.h"
#include "benchmark/benchmark.h"
#include "kernels/isa.h"
#include "kernels/kernels.h"
#include "kernels/reference/operations_reference.h"
#include "step/kv_layout.h"

namespace tahmin::kernels {
namespace {

bool MatchesReference(const AttentionRow& row, const AttentionShape& shape) {
  std::vector<double> expected(static_cast<size_t>(shape.num_heads * shape.head_dim));
  reference::Attention(row, shape, expected.data());
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!(std::abs(row.out[i] - expected[i]) < 1e-4)) return false;
  }
  return true;
}

// Arguments: heads, key/value heads, head dimension, context in front, rows, threads.
void BM_Attention(benchmark::State& state) {
  const int32_t num_heads = static_cast<int32_t>(state.range(0));
  const int32_t head_dim = static_cast<int32_t>(state.range(2));
  const AttentionShape shape = {num_heads, static_cast<int32_t>(state.range(1)), head_dim,
                                1.0f / std::sqrt(static_cast<float>(head_dim)), 0};
  const int64_t context = state.range(3), num_rows = state.range(4);
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  const int64_t num_slots = PaddedSlots(context + num_rows);
  std::vector<uint16_t> keys(shape.num_kv_heads * num_slots * head_dim), values(keys.size());
  for (uint16_t& key : keys) key = FloatToHalf(normal(generator));
  for (uint16_t& value : values) value = FloatToHalf(normal(generator));
  std::vector<float> queries(num_rows * num_heads * head_dim), out(queries.size());
  for (float& query : queries) query = normal(generator);

  std::vector<AttentionRow> rows(num_rows);
  for (int64_t i = 0; i < num_rows; ++i) {
    rows[i].queries = queries.data() + i * num_heads * head_dim;
    rows[i].out = out.data() + i * num_heads * head_dim;
    rows[i].kv = {keys.data(), values.data(), num_slots, true};
    rows[i].prefix_length = context + i + 1;
  }
  ThreadPool pool(static_cast<int>(state.range(5)));
  std::vector<float> scratch(AttentionScratchFloats(shape) * pool.num_threads());
  Attention(rows, shape, scratch.data(), pool);
  if (!MatchesReference(rows.back(), shape)) {
    state.SkipWithError("differs from the reference");
    return;
  }
  for (auto _ : state) {
    Attention(rows, shape, scratch.data(), pool);
    benchmark::ClobberMemory();
  }
  const double pairs =
      static_cast<double>(num_rows) * (static_cast<double>(context) + (num_rows + 1) * 0.5);
  state.counters["mac/s"] = benchmark::Counter(2.0 * pairs * num_heads * head_dim,
                                               benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK(BM_Attention)
    ->ArgNames({"heads", "kv", "dim", "context", "rows", "threads"})
    ->ArgsProduct({{9}, {3}, {64}, {512, 4096}, {1, 5}, {1, 2}})
    ->ArgsProduct({{12}, {2}, {128}, {512, 4096}, {1, 5}, {1, 2}})
    ->Args({9, 3, 64, 0, 512, 1})
    ->Args({9, 3, 64, 0, 512, 2})
    ->Args({12, 2, 128, 0, 512, 2})
    ->Args({8, 8, 64, 0, 512, 2})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tahmin::kernels

int main(int argc, char** argv) {
  const absl::StatusOr<tahmin::kernels::Isa> isa = tahmin::kernels::SelectIsa();
  if (!isa.ok()) return EXIT_FAILURE;
  benchmark::AddCustomContext("isa", std::string(tahmin::kernels::IsaName(*isa)));
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return EXIT_SUCCESS;
}
