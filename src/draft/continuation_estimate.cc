#include "draft/continuation_estimate.h"

#include <algorithm>

#include "base/check.h"

namespace tahmin {
namespace {

struct Context {
  const SuffixAutomaton* text = nullptr;
  SuffixMatch match;
  double weight = 0;  // of one observation
};

struct ContextList {
  std::array<Context, kMostContexts> items;
  int32_t size = 0;

  std::span<const Context> view() const { return std::span(items).first(size); }
};

// The recursion unrolled from its end: an observation after the longest match weighs
// 1 / (count + strength), and what is left, strength / (count + strength), is shared by the rest.
ContextList WeighContexts(std::span<const TextMatch> matches) {
  TAHMIN_CHECK(matches.size() <= kMostTexts);
  std::array<TextMatch, kMostTexts> ahead;
  std::copy(matches.begin(), matches.end(), ahead.begin());
  ContextList contexts;
  double left = 1;
  while (contexts.size < kMostContexts && left > kNegligible) {
    TextMatch* const longest = std::max_element(
        ahead.begin(), ahead.begin() + matches.size(),
        [](const TextMatch& a, const TextMatch& b) { return a.match.length < b.match.length; });
    if (matches.empty() || longest->match.length == 0) break;
    const double count = longest->text->Continuations(longest->match);
    const double strength = PriorStrength(longest->match.length);
    if (count > 0) {
      contexts.items[contexts.size++] = {longest->text, longest->match, left / (count + strength)};
      left *= strength / (count + strength);
    }
    longest->match = longest->text->Shorter(longest->match);
  }
  return contexts;
}

void AddToken(int32_t token, ContinuationList* list) {
  const auto has_token = [&](const Continuation& item) { return item.token == token; };
  if (token < 0 || list->size == ContinuationList::kMost) return;
  if (std::any_of(list->view().begin(), list->view().end(), has_token)) return;
  list->items[list->size++] = {.token = token};
}

}  // namespace

double PriorStrength(int32_t match_length) { return 3.0 / match_length; }

ContinuationList EstimateContinuations(std::span<const TextMatch> matches) {
  const ContextList contexts = WeighContexts(matches);
  ContinuationList list;
  for (const Context& context : contexts.view()) {
    for (const auto& edge : context.text->TopEdges(context.match)) AddToken(edge.token, &list);
  }
  for (int32_t i = 0; i < list.size; ++i) {
    Continuation& item = list.items[i];
    for (const Context& context : contexts.view()) {
      item.probability += context.weight * context.text->Continuations(context.match, item.token);
    }
  }
  std::sort(list.items.begin(), list.items.begin() + list.size,
            [](const Continuation& a, const Continuation& b) {
              if (a.probability != b.probability) return a.probability > b.probability;
              return a.token < b.token;
            });
  return list;
}

}  // namespace tahmin
