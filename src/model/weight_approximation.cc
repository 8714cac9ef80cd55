#include "model/weight_approximation.h"

#include <algorithm>

#include "model/two_bit_rows.h"

namespace tahmin {
namespace {

constexpr int32_t kLargeVocabulary = 16384;
constexpr int32_t kFrequentTokens = 32768;
constexpr int32_t kCoarseCandidates = 64;

}  // namespace

HeadShape HeadShape::Of(const WeightApproximation& approximation, const ModelConfig& config) {
  HeadShape shape{.kind = approximation.head};
  if (shape.kind == DraftHead::kAuto) {
    const bool pays = config.vocab_size >= kLargeVocabulary &&
                      config.embedding_length <= TwoBitRows::kMostColumns;
    shape.kind = pays ? DraftHead::kCoarse : DraftHead::kExact;
  }
  if (shape.kind == DraftHead::kExact) return shape;
  const int32_t usual = shape.kind == DraftHead::kFrequent ? kFrequentTokens : kCoarseCandidates;
  const int32_t wanted = approximation.head_tokens > 0 ? approximation.head_tokens : usual;
  shape.num_tokens = std::min(wanted, config.vocab_size);
  return shape;
}

}  // namespace tahmin
