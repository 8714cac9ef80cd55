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

}  // namespace

absl::StatusOr<std::unique_ptr<ForwardScratch::State>> ForwardScratch::State::Create(
    const ModelConfig& config, int32_t max_rows, int32_t max_logit_rows, int32_t num_threads) {
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
double ForwardScratch::attention_ms() const { return state_->attention_ms; }
int64_t ForwardScratch::base_rows() const { return state_->base_rows; }
int64_t ForwardScratch::residual_rows() const { return state_->residual_rows; }

}  // namespace tahmin
