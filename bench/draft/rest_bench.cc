// The drafter `rest` on a real store: what a look-up costs, and what it is worth on texts that are
// not in the store.
//
//   rest_bench STORE                               look-ups only: ends of texts of the store
//   rest_bench STORE -m MODEL.gguf FILE...         also teacher-forced: each file is written token
//                                                  by token, every token that the draft foresaw is
//                                                  one that the target need not be run for
//
// Times are of one Draft call on a warm store (a first round over the same queries warms it). A
// draft is checked before it is counted: within its budget, siblings different, ids in range.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "draft/datastore.h"
#include "draft/rest.h"
#include "fmt/format.h"
#include "gguf/gguf_file.h"
#include "tokenizer/tokenizer.h"

namespace tahmin {
namespace {

constexpr DraftBudget kBudgets[] = {
    {.max_tokens = 4, .max_depth = 4, .max_width = 1},
    {.max_tokens = 7, .max_depth = 7, .max_width = 1},
    {.max_tokens = 15, .max_depth = 15, .max_width = 1},
    {.max_tokens = 8, .max_depth = 6, .max_width = 4},
    {.max_tokens = 16, .max_depth = 8, .max_width = 4},
    {.max_tokens = 31, .max_depth = 10, .max_width = 8},
    {.max_tokens = 63, .max_depth = 10, .max_width = 16},  // as the paper's 64 with the root
};

std::string NameOf(const DraftBudget& budget) {
  return budget.max_width == 1 ? fmt::format("chain of {}", budget.max_tokens)
                               : fmt::format("tree of {}, depth {}, width {}", budget.max_tokens,
                                             budget.max_depth, budget.max_width);
}

template <typename T>
T OrExit(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  fmt::print(stderr, "rest_bench: {}\n", std::string(value.status().message()));
  std::exit(1);
}

void CheckDraft(const DraftTree& tree, const DraftBudget& budget, uint32_t vocab_size) {
  std::vector<int32_t> depth;
  TAHMIN_CHECK(tree.size() <= budget.max_tokens);
  for (int32_t i = 0; i < tree.size(); ++i) {
    const DraftNode& node = tree.nodes[static_cast<size_t>(i)];
    TAHMIN_CHECK(node.parent >= kRoot && node.parent < i);
    depth.push_back(node.parent == kRoot ? 1 : depth[static_cast<size_t>(node.parent)] + 1);
    TAHMIN_CHECK(depth.back() <= budget.max_depth);
    TAHMIN_CHECK(static_cast<uint32_t>(node.token) < vocab_size);
    TAHMIN_CHECK(tree.FindChild(node.parent, node.token) == i);
  }
}

double TimedDraft(Drafter& rest, std::span<const int32_t> tokens, const DraftBudget& budget,
                  DraftTree* tree) {
  const auto begin = std::chrono::steady_clock::now();
  *tree = rest.Draft({.tokens = tokens}, budget);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

double Quantile(std::vector<double> times, double part) {
  if (times.empty()) return 0;
  std::sort(times.begin(), times.end());
  return times[std::min(times.size() - 1, static_cast<size_t>(part * times.size()))];
}

// 17 tokens from anywhere in the store; with `matching` < 17, the token before the last `matching`
// ones is replaced, so that only those are known.
std::vector<std::vector<int32_t>> EndsOfTexts(const Datastore& store, size_t count,
                                              size_t matching) {
  std::mt19937_64 random(matching);
  std::vector<std::vector<int32_t>> queries;
  const uint32_t vocab_size = store.vocab_size();
  while (queries.size() < count) {
    const DatastoreChunk& chunk = store.chunks()[random() % store.chunks().size()];
    const auto text = chunk.Continuation(random() % chunk.num_suffixes(), 0, 17);
    if (text.size() < 17) continue;
    std::vector<int32_t> query(text.begin(), text.end());
    if (matching < 17) query[16 - matching] = static_cast<int32_t>(random() % vocab_size);
    queries.push_back(std::move(query));
  }
  return queries;
}

void TimeLookups(const Datastore& store) {
  const auto rest = MakeRest(store);
  const DraftBudget budget = {.max_tokens = 16, .max_depth = 8, .max_width = 4};
  fmt::print("look-ups, {}\n", NameOf(budget));
  for (const size_t matching : {size_t{17}, size_t{8}, size_t{4}, size_t{2}}) {
    const auto queries = EndsOfTexts(store, 20000, matching);
    std::vector<double> times;
    for (int round = 0; round < 2; ++round) {
      times.clear();
      for (const std::vector<int32_t>& query : queries) {
        DraftTree tree;
        times.push_back(TimedDraft(*rest, query, budget, &tree));
        CheckDraft(tree, budget, store.vocab_size());
      }
    }
    fmt::print("  {:2} tokens match: p50 {:6.1f} us, p99 {:6.1f} us, p99.9 {:6.1f} us\n",
               std::min<size_t>(matching, 16), Quantile(times, 0.5), Quantile(times, 0.99),
               Quantile(times, 0.999));
  }
}

struct Forced {
  int64_t tokens = 0, steps = 0, drafted = 0, empty = 0;
  std::vector<double> times;
  // Tested draft tokens by confidence, and how many of them were right.
  std::array<int64_t, 10> tested = {}, accepted = {};

  void Add(const Forced& other) {
    tokens += other.tokens;
    steps += other.steps;
    drafted += other.drafted;
    empty += other.empty;
    times.insert(times.end(), other.times.begin(), other.times.end());
    for (size_t i = 0; i < tested.size(); ++i) {
      tested[i] += other.tested[i];
      accepted[i] += other.accepted[i];
    }
  }
};

// Every child of a reached node is tested: its text says whether it is right.
int32_t Walk(const DraftTree& tree, std::span<const int32_t> truth, Forced* forced) {
  int32_t node = kRoot;
  for (int32_t depth = 0;; ++depth) {
    const bool is_over = depth == static_cast<int32_t>(truth.size());
    int32_t next = kRoot;
    for (int32_t i = node + 1; i < tree.size() && !is_over; ++i) {
      const DraftNode& child = tree.nodes[static_cast<size_t>(i)];
      if (child.parent != node) continue;
      const bool is_right = child.token == truth[static_cast<size_t>(depth)];
      const auto bin = static_cast<size_t>(std::min(9.0f, child.confidence * 10));
      forced->tested[bin] += 1;
      forced->accepted[bin] += is_right ? 1 : 0;
      if (is_right) next = i;
    }
    if (next == kRoot) return depth;
    node = next;
  }
}

Forced ForceText(const Datastore& store, std::span<const int32_t> text, const DraftBudget& budget) {
  Forced forced;
  const auto rest = MakeRest(store);
  constexpr size_t kFirst = 8;  // tokens that are given
  for (size_t at = kFirst; at < text.size();) {
    DraftTree tree;
    forced.times.push_back(TimedDraft(*rest, text.first(at), budget, &tree));
    CheckDraft(tree, budget, store.vocab_size());
    const int32_t accepted = Walk(tree, text.subspan(at), &forced);
    const size_t committed = std::min<size_t>(text.size() - at, static_cast<size_t>(accepted) + 1);
    forced.tokens += static_cast<int64_t>(committed);
    forced.drafted += tree.size();
    forced.empty += tree.empty() ? 1 : 0;
    forced.steps += 1;
    at += committed;
  }
  return forced;
}

void PrintCalibration(const Forced& forced) {
  fmt::print("  confidence -> accepted:");
  for (size_t i = 0; i < forced.tested.size(); ++i) {
    if (forced.tested[i] == 0) continue;
    fmt::print("  {:.2f} {:.2f} ({})", 0.1 * i + 0.05,
               static_cast<double>(forced.accepted[i]) / forced.tested[i], forced.tested[i]);
  }
  fmt::print("\n");
}

void ForceTexts(const Datastore& store, const std::vector<std::vector<int32_t>>& texts) {
  for (const DraftBudget& budget : kBudgets) {
    Forced sum;
    std::vector<double> by_text;
    for (const std::vector<int32_t>& text : texts) {
      const Forced forced = ForceText(store, text, budget);
      if (forced.steps > 0) by_text.push_back(static_cast<double>(forced.tokens) / forced.steps);
      sum.Add(forced);
    }
    fmt::print(
        "{}: {:.3f} tokens per step over {} tokens of {} texts (quartiles by text {:.2f} "
        "{:.2f} {:.2f}); {:.2f} drafted a step, {:.1f} % of steps without a draft; p50 "
        "{:.1f} us, p99 {:.1f} us\n",
        NameOf(budget), static_cast<double>(sum.tokens) / sum.steps, sum.tokens, by_text.size(),
        Quantile(by_text, 0.25), Quantile(by_text, 0.5), Quantile(by_text, 0.75),
        static_cast<double>(sum.drafted) / sum.steps, 100.0 * sum.empty / sum.steps,
        Quantile(sum.times, 0.5), Quantile(sum.times, 0.99));
    PrintCalibration(sum);
  }
}

std::vector<std::vector<int32_t>> TokenizeFiles(const Datastore& store, const std::string& model,
                                                const std::vector<std::string>& paths) {
  const auto file = OrExit(GgufFile::Open(model));
  const auto tokenizer = OrExit(Tokenizer::Create(*file));
  const absl::Status status = store.CheckTokenizer(tokenizer->Fingerprint());
  if (!status.ok()) OrExit<int>(status);
  std::vector<std::vector<int32_t>> texts;
  for (const std::string& path : paths) {
    std::ifstream stream(path, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(stream), {});
    texts.push_back(
        OrExit(tokenizer->Tokenize(text, {.add_special = false, .parse_special = false})));
  }
  return texts;
}

int Run(int argc, char** argv) {
  std::string store_path, model;
  std::vector<std::string> paths;
  CLI::App app("Times and values look-ups in a datastore");
  app.add_option("store", store_path)->required();
  CLI::Option* model_option = app.add_option("-m,--model", model);
  app.add_option("files", paths)->needs(model_option);
  CLI11_PARSE(app, argc, argv);
  const auto store = OrExit(Datastore::Open(store_path));
  fmt::print("{}: {} tokens, {} documents, {} chunks\n", store->path(), store->num_tokens(),
             store->num_documents(), store->chunks().size());
  TimeLookups(*store);
  if (!paths.empty()) ForceTexts(*store, TokenizeFiles(*store, model, paths));
  return 0;
}

}  // namespace
}  // namespace tahmin

int main(int argc, char** argv) { return tahmin::Run(argc, argv); }
