// Time of the bookkeeping of `suffix` and `lookup`: taking in one committed token, drafting from a
// sequence, and adding an output to a full store. The text repeats itself as real text does:
// skewed ids, and passages copied from further ahead. Each case checks its answer before it is
// timed.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "benchmark/benchmark.h"
#include "draft/prompt_lookup.h"
#include "draft/suffix.h"

namespace tahmin {
namespace {

using Tokens = std::vector<int32_t>;

constexpr int32_t kVocabSize = 50000;

Tokens TextOf(int32_t size, uint32_t seed) {
  std::mt19937 random(seed);
  Tokens text;
  while (static_cast<int32_t>(text.size()) < size) {
    if (text.size() > 100 && random() % 20 == 0) {
      const size_t from = random() % (text.size() - 50);
      const size_t length = 5 + random() % 40;
      for (size_t i = 0; i < length; ++i) text.push_back(text[from + i]);
    } else {
      const double x = static_cast<double>(random() % 100000) / 100000;
      text.push_back(static_cast<int32_t>(x * x * x * x * 40000));
    }
  }
  text.resize(static_cast<size_t>(size));
  return text;
}

std::unique_ptr<SuffixStore> FullStore() {
  auto store = SuffixStore::Create({.max_bytes = 64 << 20, .vocab_size = kVocabSize});
  if (!store.ok()) return nullptr;
  for (uint32_t output = 0; output < 4000; ++output) (*store)->Add(TextOf(200, output));
  return *std::move(store);
}

const SuffixStore* StoreOf(const benchmark::State& state) {
  static const std::unique_ptr<SuffixStore> store = FullStore();
  return state.range(1) == 0 ? nullptr : store.get();
}

enum class Kind { kLookup, kSuffix };

template <Kind kind>
std::unique_ptr<Drafter> MakeOne(const SuffixStore* store) {
  return kind == Kind::kLookup ? MakePromptLookup(1, 8) : MakeSuffix(store, kVocabSize);
}

// The text's end was copied from its middle: a chain must go on with the copy.
Tokens WithKnownEnd(Tokens text) {
  const size_t middle = text.size() / 2;
  for (size_t i = 0; i < 40; ++i) text[text.size() - 40 + i] = text[middle + i];
  return text;
}

bool DraftsTheCopy(Drafter& drafter, const Tokens& text) {
  const DraftTree tree = drafter.Draft({.tokens = text}, {.max_tokens = 5, .max_depth = 5});
  if (tree.size() != 5) return false;
  for (int32_t i = 0; i < 5; ++i) {
    if (tree.nodes[i].token != text[text.size() / 2 + 40 + i]) return false;
  }
  return true;
}

// Arguments: tokens of the sequence, 1: with a full store, nodes and width of the draft.
template <Kind kind>
void BM_Draft(benchmark::State& state) {
  const Tokens text = WithKnownEnd(TextOf(static_cast<int32_t>(state.range(0)), 1));
  const std::unique_ptr<Drafter> drafter = MakeOne<kind>(StoreOf(state));
  drafter->Begin({.tokens = text});
  if (!DraftsTheCopy(*drafter, text)) {
    state.SkipWithError("does not draft the copied passage");
    return;
  }
  const auto num_nodes = static_cast<int32_t>(state.range(2));
  const DraftBudget budget = {.max_tokens = num_nodes,
                              .max_depth = num_nodes,
                              .max_width = static_cast<int32_t>(state.range(3))};
  for (auto _ : state) {
    benchmark::DoNotOptimize(drafter->Draft({.tokens = text}, budget));
  }
}

// The mean over a whole sequence, one committed token at a time.
template <Kind kind>
void BM_Observe(benchmark::State& state) {
  const Tokens text = WithKnownEnd(TextOf(static_cast<int32_t>(state.range(0)), 1));
  for (auto _ : state) {
    const std::unique_ptr<Drafter> drafter = MakeOne<kind>(StoreOf(state));
    for (size_t size = 1; size <= text.size(); ++size) {
      drafter->Observe({.tokens = std::span(text).first(size)}, {}, {}, {}, {});
    }
    if (!DraftsTheCopy(*drafter, text)) {
      state.SkipWithError("does not draft the copied passage");
      return;
    }
  }
  state.counters["per_token"] = benchmark::Counter(
      static_cast<double>(text.size()),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void BM_AddToFullStore(benchmark::State& state) {
  const std::unique_ptr<SuffixStore> store = FullStore();
  const Tokens output = TextOf(static_cast<int32_t>(state.range(0)), 12345);
  for (auto _ : state) store->Add(output);
  if (store->Bytes() > 64 << 20) state.SkipWithError("the store is above its cap");
}

constexpr auto kLookup = Kind::kLookup;
constexpr auto kSuffix = Kind::kSuffix;
BENCHMARK(BM_Draft<kLookup>)
    ->ArgNames({"tokens", "store", "nodes", "width"})
    ->Args({4096, 0, 5, 1})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Draft<kSuffix>)
    ->ArgNames({"tokens", "store", "nodes", "width"})
    ->ArgsProduct({{4096}, {0, 1}, {5, 16, 32}, {1, 4}})
    ->Args({32768, 1, 32, 4})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Observe<kLookup>)
    ->ArgNames({"tokens", "store"})
    ->Args({4096, 0})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Observe<kSuffix>)
    ->ArgNames({"tokens", "store"})
    ->ArgsProduct({{4096, 32768}, {0, 1}})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_AddToFullStore)->ArgName("tokens")->Arg(200)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tahmin

BENCHMARK_MAIN();
