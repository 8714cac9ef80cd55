// What `recycling` costs a step, all of it on one thread: the rows of a verified tree go into the
// matrix (Observe), a tree comes out of it (Draft). Vocabularies of SmolLM2 (49,152) and Qwen2.5
// (151,936). Rows are checked against a sort before they are timed.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "benchmark/benchmark.h"
#include "draft/recycling_matrix.h"
#include "draft/token_recycling.h"

namespace tahmin {
namespace {

// Rows as a language model's: a wide bulk and a few tokens that stand out.
std::vector<float> RandomRows(int32_t num_rows, int32_t vocab_size) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> rows(static_cast<size_t>(num_rows) * vocab_size);
  for (float& logit : rows) logit = 2.5f * normal(generator);
  for (int32_t row = 0; row < num_rows; ++row) {
    for (int32_t i = 0; i < 20; ++i) {
      const size_t token = generator() % vocab_size;
      rows[static_cast<size_t>(row) * vocab_size + token] = 12 + 2 * normal(generator);
    }
  }
  return rows;
}

bool HoldsTheLargest(const RecyclingMatrix::Row& row, std::span<const float> logits) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::partial_sort(ids.begin(), ids.begin() + RecyclingMatrix::kSuccessors, ids.end(),
                    [&](int32_t a, int32_t b) {
                      return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
                    });
  return std::equal(row.tokens.begin(), row.tokens.end(), ids.begin());
}

// Arguments: vocabulary, verified rows.
void BM_Observe(benchmark::State& state) {
  const auto vocab_size = static_cast<int32_t>(state.range(0));
  const auto num_rows = static_cast<int32_t>(state.range(1));
  const std::vector<float> rows = RandomRows(num_rows, vocab_size);
  const VerifiedTree verified = {.logits = rows, .vocab_size = vocab_size};
  RecyclingMatrix matrix(vocab_size);
  const auto drafter = MakeTokenRecycling(&matrix, vocab_size);
  // A chain of which the first half is accepted.
  DraftTree tree;
  AcceptedPath path;
  std::vector<int32_t> node_map, tokens = {5, 7};
  for (int32_t i = 0; i + 1 < num_rows; ++i) {
    tree.nodes.push_back({.token = 1000 + i, .parent = i - 1});
    node_map.push_back(i);
    if (i < num_rows / 2) path.nodes.push_back(i);
    if (i < num_rows / 2) path.tokens.push_back(1000 + i);
  }
  path.tokens.push_back(3);
  tokens.insert(tokens.end(), path.tokens.begin(), path.tokens.end());
  const SequenceView view = {.tokens = tokens};
  drafter->Observe(view, tree, verified, path, node_map);
  if (!HoldsTheLargest(matrix.Find(5, 7).row, verified.LogitsOf(kRoot))) {
    state.SkipWithError("differs from the sorted row");
    return;
  }
  for (auto _ : state) {
    drafter->Observe(view, tree, verified, path, node_map);
    benchmark::ClobberMemory();
  }
  state.counters["time/row"] = benchmark::Counter(
      num_rows, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_Observe)
    ->ArgNames({"vocab", "rows"})
    ->ArgsProduct({{49152, 151936}, {1, 5, 9, 17}})
    ->Unit(benchmark::kMicrosecond);

// Arguments: nodes of the tree, out of a full matrix.
void BM_Draft(benchmark::State& state) {
  constexpr int32_t kVocabSize = 49152;
  RecyclingMatrix matrix(kVocabSize);
  std::mt19937 generator(1);
  for (int32_t token = 0; token < kVocabSize; ++token) {
    for (int32_t i = 0; i < RecyclingMatrix::kSuccessors; ++i) {
      matrix.StoreFollower(-1, token, static_cast<int32_t>(generator() % kVocabSize));
    }
  }
  const auto drafter = MakeTokenRecycling(&matrix, kVocabSize);
  const auto num_nodes = static_cast<int32_t>(state.range(0));
  const DraftBudget budget = {.max_tokens = num_nodes, .max_depth = 8, .max_width = 4};
  std::vector<int32_t> tokens = {1, 2};
  for (auto _ : state) {
    tokens[1] = static_cast<int32_t>(generator() % kVocabSize);
    const DraftTree tree = drafter->Draft({.tokens = tokens}, budget);
    if (tree.size() != num_nodes) state.SkipWithError("the tree is not full");
  }
}
BENCHMARK(BM_Draft)->ArgName("nodes")->Arg(4)->Arg(8)->Arg(16)->Arg(32)->Unit(
    benchmark::kMicrosecond);

}  // namespace
}  // namespace tahmin

BENCHMARK_MAIN();
