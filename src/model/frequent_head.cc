#include "model/frequent_head.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/status_macros.h"
#include "kernels/kernels.h"
#include "model/forward_scratch.h"
#include "model/pack_tensor.h"

namespace tahmin {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Values of tokenizer.ggml.token_type.
constexpr int64_t kControlToken = 3, kUserDefinedToken = 4, kByteToken = 6;

bool IsSpecial(int64_t type) {
  return type == kControlToken || type == kUserDefinedToken || type == kByteToken;
}

std::vector<float> Gather(std::span<const float> values, std::span<const int32_t> indices) {
  std::vector<float> gathered;
  if (values.empty()) return gathered;
  for (const int32_t index : indices) gathered.push_back(values[static_cast<size_t>(index)]);
  return gathered;
}

const float* DataOrNull(const std::vector<float>& values) {
  return values.empty() ? nullptr : values.data();
}

void Spread(std::span<const int32_t> tokens, const float* from, float* logits) {
  for (size_t i = 0; i < tokens.size(); ++i) logits[tokens[i]] = from[i];
}

}  // namespace

std::vector<int32_t> FrequentTokens(const GgufFile& file, int32_t num_tokens, int32_t vocab_size) {
  std::vector<int32_t> tokens;
  for (int32_t token = 0; token < std::min(num_tokens, vocab_size); ++token) {
    tokens.push_back(token);
  }
  // A file without types is legal: then no token is special.
  const auto types = file.GetIntArray("tokenizer.ggml.token_type");
  const size_t num_types = types.ok() ? types->size() : 0;
  const size_t end = std::min(num_types, static_cast<size_t>(vocab_size));
  for (size_t token = tokens.size(); token < end; ++token) {
    if (IsSpecial((*types)[token])) tokens.push_back(static_cast<int32_t>(token));
  }
  return tokens;
}

absl::StatusOr<FrequentHead> BuildFrequentHead(const GgufFile& file, const GgufTensor& all_rows,
                                               std::span<const float> bias, const HeadShape& shape,
                                               bool to_four_bits, const kernels::SlicedPool& pool) {
  const auto vocab_size = static_cast<int32_t>(all_rows.rows());
  FrequentHead head;
  head.tokens = FrequentTokens(file, shape.num_tokens, vocab_size);
  head.is_kept.resize(static_cast<size_t>(vocab_size));
  for (const int32_t token : head.tokens) head.is_kept[static_cast<size_t>(token)] = 1;
  head.bias = Gather(bias, head.tokens);
  head.all_rows = &all_rows;
  head.to_four_bits = to_four_bits;
  TAHMIN_ASSIGN_OR_RETURN(head.matrix, PackTensorRows(all_rows, head.tokens, to_four_bits, pool));
  return head;
}

absl::Status AddOwnTokens(const FrequentHead& head, std::span<const float> bias,
                          std::span<const int32_t> tokens, int32_t max_logit_rows,
                          FrequentScratch& scratch, ThreadPool& pool) {
  std::vector<int32_t> own = scratch.own_tokens;
  for (const int32_t token : tokens) {
    const auto index = static_cast<size_t>(token);
    if (index >= head.is_kept.size() || head.is_kept[index] != 0 || scratch.is_own[index] != 0) {
      continue;
    }
    if (std::find(own.begin() + static_cast<int64_t>(scratch.own_tokens.size()), own.end(),
                  token) == own.end()) {
      own.push_back(token);
    }
  }
  if (own.size() == scratch.own_tokens.size()) return absl::OkStatus();
  TAHMIN_ASSIGN_OR_RETURN(kernels::PackedMatrix matrix,
                          PackTensorRows(*head.all_rows, own, head.to_four_bits, pool));
  scratch.own_matrix = std::move(matrix);
  scratch.own_bias = Gather(bias, own);
  scratch.own_logits.resize(static_cast<size_t>(max_logit_rows) * own.size());
  for (const int32_t token : own) scratch.is_own[static_cast<size_t>(token)] = 1;
  scratch.own_tokens = std::move(own);
  return absl::OkStatus();
}

void ComputeFrequentLogits(const ForwardPass& pass) {
  ForwardScratch::State& scratch = pass.scratch;
  const ModelWeights& weights = pass.weights;
  const FrequentHead& head = *weights.frequent_head;
  FrequentScratch& own = scratch.frequent;
  const auto num_tokens = static_cast<int64_t>(head.tokens.size());
  const auto num_own = static_cast<int64_t>(own.own_tokens.size());
  const kernels::MatMulJob jobs[] = {
      {&head.matrix, DataOrNull(head.bias), own.logits.As<float>().data(), num_tokens},
      {&own.own_matrix, DataOrNull(own.own_bias), own.own_logits.data(), num_own},
  };
  FillAndMultiply(pass, PassStage::kHead, scratch.embedding_length, weights.formats.output_head,
                  {jobs, num_own > 0 ? 2u : 1u}, [&](int32_t row, float* out) {
                    kernels::RmsNorm(scratch.hidden_row(row), weights.output_norm.data(),
                                     weights.config.rms_epsilon, scratch.embedding_length, out);
                  });
  for (int32_t row = 0; row < scratch.num_rows; ++row) {
    float* logits = scratch.logits_row(row);
    std::fill_n(logits, scratch.vocab_size, -kInfinity);
    Spread(head.tokens, own.logits.As<float>().data() + row * num_tokens, logits);
    Spread(own.own_tokens, own.own_logits.data() + row * num_own, logits);
  }
}

}  // namespace tahmin
