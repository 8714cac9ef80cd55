#include "model/forward_scratch.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/status_macros.h"

namespace tahmin {
namespace {

struct BufferSize {
  AlignedBuffer ForwardScratch::State::*member;
  size_t num_bytes;
};

std::vector<BufferSize> BufferSizes(const ModelConfig& config, int32_t max_rows,
                                    int32_t max_logit_rows, int32_t num_threads) {
  using State = ForwardScratch::State;
  const size_t rows = max_rows;
  auto floats = [](size_t num_rows, int64_t width) { return num_rows * width * sizeof(float); };
  const int64_t num_pairs = config.rotary_dimensions / 2;
  return {
      {&State::hidden, floats(rows, config.embedding_length)},
      {&State::projected, floats(rows, config.embedding_length)},
      {&State::queries, floats(rows, config.query_width())},
      {&State::keys, floats(rows, config.kv_width())},
      {&State::values, floats(rows, config.kv_width())},
      {&State::attended, floats(rows, config.query_width())},
      {&State::gate, floats(rows, config.feed_forward_length)},
      {&State::up, floats(rows, config.feed_forward_length)},
      {&State::cosines, floats(rows, num_pairs)},
      {&State::sines, floats(rows, num_pairs)},
      {&State::attention,
       floats(num_threads, kernels::AttentionScratchFloats(MakeAttentionShape(config)))},
      {&State::tail_slots, rows * (rows + 1) / 2 * sizeof(int32_t)},
      {&State::logits, floats(max_logit_rows, config.vocab_size)},
  };
}

int64_t WidestInput(const ModelConfig& config) {
  return std::max({config.embedding_length, config.query_width(), config.feed_forward_length});
}

absl::Status CreateHeadScratch(const ModelWeights& weights, ForwardScratch::State& state) {
  const auto vocab_size = static_cast<size_t>(weights.config.vocab_size);
  if (weights.frequent_head) {
    const size_t num_logits =
        static_cast<size_t>(state.max_logit_rows) * weights.frequent_head->tokens.size();
    TAHMIN_ASSIGN_OR_RETURN(state.frequent.logits,
                            AlignedBuffer::Create(num_logits * sizeof(float)));
    state.frequent.is_own.resize(vocab_size);
  }
  if (weights.coarse_head) {
    const size_t num_weights = static_cast<size_t>(state.num_threads * state.embedding_length);
    TAHMIN_ASSIGN_OR_RETURN(state.coarse.fine_rows,
                            AlignedBuffer::Create(num_weights * sizeof(float)));
    state.coarse.input = weights.coarse_head->coarse_rows.MakeInput();
    state.coarse.peaks.reserve(vocab_size / 64 + 1);
    state.coarse.peaks_copy.reserve(vocab_size / 64 + 1);
    state.coarse.candidates.reserve(vocab_size);
    state.coarse.fine_logits.resize(static_cast<size_t>(weights.head.num_tokens));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ForwardScratch::State>> ForwardScratch::State::Create(
    const ModelWeights& weights, int32_t max_rows, int32_t max_logit_rows, int32_t num_threads) {
  const ModelConfig& config = weights.config;
  auto state = std::make_unique<State>();
  state->max_rows = max_rows;
  state->max_logit_rows = max_logit_rows;
  state->num_threads = num_threads;
  state->embedding_length = config.embedding_length;
  state->query_width = config.query_width();
  state->kv_width = config.kv_width();
  state->feed_forward_length = config.feed_forward_length;
  state->vocab_size = config.vocab_size;
  state->num_pairs = config.rotary_dimensions / 2;
  TAHMIN_ASSIGN_OR_RETURN(state->input,
                          kernels::ActivationRows::Create(max_rows, WidestInput(config)));
  for (const BufferSize& size : BufferSizes(config, max_rows, max_logit_rows, num_threads)) {
    TAHMIN_ASSIGN_OR_RETURN((*state).*size.member, AlignedBuffer::Create(size.num_bytes));
  }
  TAHMIN_RETURN_IF_ERROR(CreateHeadScratch(weights, *state));
  state->places.resize(max_rows);
  state->attention_rows.resize(max_rows);
  return state;
}

size_t ForwardScratchBytes(const ModelConfig& config, int32_t max_rows, int32_t max_logit_rows,
                           int32_t num_threads) {
  size_t num_bytes = kernels::ActivationRows::ScratchBytes(max_rows, WidestInput(config));
  for (const BufferSize& size : BufferSizes(config, max_rows, max_logit_rows, num_threads)) {
    num_bytes += size.num_bytes;
  }
  return num_bytes + max_rows * (sizeof(RowPlace) + sizeof(kernels::AttentionRow));
}

size_t HeadScratchBytes(const HeadShape& head, const ModelConfig& config, int32_t max_logit_rows,
                        int32_t num_threads) {
  const auto num_tokens = static_cast<size_t>(head.num_tokens);
  const auto vocab_size = static_cast<size_t>(config.vocab_size);
  if (head.kind == DraftHead::kFrequent) {
    return num_tokens * static_cast<size_t>(max_logit_rows) * sizeof(float) + vocab_size;
  }
  if (head.kind != DraftHead::kCoarse) return 0;
  const auto fine = static_cast<size_t>(config.embedding_length * num_threads);
  const auto input = static_cast<size_t>(config.embedding_length);
  return (fine + input + num_tokens + vocab_size + vocab_size / 32) * sizeof(float);
}

kernels::AttentionShape MakeAttentionShape(const ModelConfig& config) {
  return {.num_heads = config.num_heads,
          .num_kv_heads = config.num_kv_heads,
          .head_dim = config.head_dim,
          .scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim)),
          .window = config.sliding_window};
}

ForwardScratch::ForwardScratch(std::unique_ptr<State> state) : state_(std::move(state)) {}
ForwardScratch::~ForwardScratch() = default;

std::span<const float> ForwardScratch::logits() const {
  const AlignedBuffer& buffer = state_->logits;
  return buffer.As<float>().first(static_cast<size_t>(state_->num_logits) * state_->vocab_size);
}
int32_t ForwardScratch::max_rows() const { return state_->max_rows; }
int32_t ForwardScratch::max_logit_rows() const { return state_->max_logit_rows; }
const PassStageMs& ForwardScratch::stage_ms() const { return state_->profile.ms(); }
int64_t ForwardScratch::base_rows() const { return state_->base_rows; }
int64_t ForwardScratch::residual_rows() const { return state_->residual_rows; }

}  // namespace tahmin
