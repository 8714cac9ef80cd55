#include "model/model.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "kernels/isa.h"
#include "kernels/kernels.h"
#include "kernels/matmul.h"
#include "model/attention.h"
#include "model/feed_forward.h"
#include "model/forward_scratch.h"
#include "model/weights.h"

namespace tahmin {
namespace {

// Gives row `row_index` its place, and its view of the past: the slots of its ancestors and its
// own. The part of that path that lies where a commit would put it (slot = position) joins the
// prefix; the rest is a list that extends the parent's in place when nobody else has done so.
void PlaceRow(const TokenBatch& batch, int32_t row_index, const KvCache& cache,
              ForwardScratch::State& scratch, int32_t*& free_tail) {
  const BatchRow& row = batch.rows[row_index];
  TAHMIN_CHECK(row.tree_slot >= 0 && row.tree_slot < cache.Reserved(row.sequence));
  TAHMIN_CHECK(row.parent_row < row_index);
  const int64_t length = cache.Length(row.sequence);
  RowPlace& place = scratch.places[row_index];
  place = {.sequence = row.sequence,
           .position = length + row.depth,
           .slot = length + row.tree_slot,
           .wants_logits = row.wants_logits};

  kernels::AttentionRow& attention = scratch.attention_rows[row_index];
  attention.prefix_length = length;
  attention.tail_slots = free_tail;
  attention.tail_size = 0;
  if (row.parent_row >= 0) {
    TAHMIN_CHECK(batch.rows[row.parent_row].sequence == row.sequence);
    TAHMIN_CHECK(batch.rows[row.parent_row].depth + 1 == row.depth);
    const kernels::AttentionRow& parent = scratch.attention_rows[row.parent_row];
    attention.prefix_length = parent.prefix_length;
    attention.tail_size = parent.tail_size;
    if (parent.tail_slots + parent.tail_size == free_tail) {
      attention.tail_slots = parent.tail_slots;
    } else {
      free_tail = std::copy_n(parent.tail_slots, parent.tail_size, free_tail);
    }
  } else {
    TAHMIN_CHECK(row.depth == 0);
  }
  if (attention.tail_size == 0 && place.slot == place.position) {
    ++attention.prefix_length;
  } else {
    *free_tail++ = static_cast<int32_t>(place.slot);
    ++attention.tail_size;
  }
}

void StartPass(const ForwardPass& pass, const TokenBatch& batch) {
  ForwardScratch::State& scratch = pass.scratch;
  scratch.num_rows = static_cast<int32_t>(batch.rows.size());
  scratch.num_logits = 0;
  scratch.profile.Start();
  scratch.base_rows = scratch.residual_rows = 0;
  TAHMIN_CHECK(scratch.num_rows <= scratch.max_rows);
  int32_t* free_tail = scratch.tail_slots.As<int32_t>().data();
  for (int32_t row = 0; row < scratch.num_rows; ++row) {
    PlaceRow(batch, row, pass.cache, scratch, free_tail);
    scratch.num_logits += batch.rows[row].wants_logits ? 1 : 0;
  }
  TAHMIN_CHECK(scratch.num_logits <= scratch.max_logit_rows);
  ForEachRow(pass, scratch.embedding_length, [&](int32_t row) {
    pass.weights.ReadEmbedding(batch.rows[row].token, scratch.hidden_row(row));
    pass.weights.rope.Fill(scratch.places[row].position, scratch.cosines_row(row),
                           scratch.sines_row(row));
  });
  scratch.profile.Lap(PassStage::kEmbedding);
}

void ComputeExactLogits(const ForwardPass& pass) {
  ForwardScratch::State& scratch = pass.scratch;
  const ModelWeights& weights = pass.weights;
  const kernels::MatMulJob jobs[] = {{&weights.output.matrix, weights.output.bias_or_null(),
                                      scratch.logits.As<float>().data(), scratch.vocab_size}};
  FillAndMultiply(pass, PassStage::kHead, scratch.embedding_length, weights.formats.output_head,
                  jobs, [&](int32_t row, float* out) {
                    kernels::RmsNorm(scratch.hidden_row(row), weights.output_norm.data(),
                                     weights.config.rms_epsilon, scratch.embedding_length, out);
                  });
}

void ComputeLogits(const ForwardPass& pass) {
  if (pass.weights.frequent_head) return ComputeFrequentLogits(pass);
  if (pass.weights.coarse_head) return ComputeCoarseLogits(pass);
  ComputeExactLogits(pass);
}

}  // namespace

Model::Model() = default;
Model::~Model() = default;

absl::StatusOr<std::unique_ptr<Model>> Model::Load(std::shared_ptr<const GgufFile> file,
                                                   const ModelLoadOptions& options,
                                                   ThreadPool& pool) {
  // Before the first weight is packed: the packed form is the instruction set's.
  TAHMIN_RETURN_IF_ERROR(kernels::SelectIsa().status());
  std::unique_ptr<Model> model(new Model());
  TAHMIN_ASSIGN_OR_RETURN(model->weights_, LoadWeights(std::move(file), options, pool));
  return model;
}

const ModelConfig& Model::config() const { return weights_->config; }

KvShape Model::MakeKvShape(KvType type) const {
  return {.num_layers = config().num_layers,
          .num_kv_heads = config().num_kv_heads,
          .head_dim = config().head_dim,
          .type = type};
}

WeightFigures Model::weight_figures() const { return weights_->figures; }

std::string Model::DescribeActivationFormats() const { return DescribeFormats(weights_->formats); }

absl::StatusOr<std::unique_ptr<ForwardScratch>> Model::CreateScratch(int32_t max_rows,
                                                                     int32_t max_logit_rows,
                                                                     ThreadPool& pool) const {
  TAHMIN_CHECK(max_rows >= 1 && max_logit_rows >= 0);
  TAHMIN_ASSIGN_OR_RETURN(
      std::unique_ptr<ForwardScratch::State> state,
      ForwardScratch::State::Create(*weights_, max_rows, max_logit_rows, pool.num_threads()));
  return std::make_unique<ForwardScratch>(std::move(state));
}

size_t Model::ScratchBytes(const ModelConfig& config, int32_t max_rows, int32_t max_logit_rows,
                           int32_t num_threads, const WeightApproximation& approximation) {
  return ForwardScratchBytes(config, max_rows, max_logit_rows, num_threads) +
         HeadScratchBytes(HeadShape::Of(approximation, config), config, max_logit_rows,
                          num_threads);
}

absl::StatusOr<size_t> Model::PlannedWeightBytes(const GgufFile& file,
                                                 const WeightApproximation& approximation) {
  return tahmin::PlannedWeightBytes(file, approximation);
}

absl::Status Model::OfferTokens(std::span<const int32_t> tokens, ForwardScratch& scratch,
                                ThreadPool& pool) const {
  if (!weights_->frequent_head) return absl::OkStatus();
  return AddOwnTokens(*weights_->frequent_head, weights_->output.bias, tokens,
                      scratch.max_logit_rows(), scratch.state().frequent, pool);
}

void Model::Forward(const TokenBatch& batch, KvCache& cache, ForwardScratch& scratch,
                    ThreadPool& pool) const {
  TAHMIN_CHECK(pool.num_threads() <= scratch.state().num_threads);
  TAHMIN_CHECK(cache.shape().num_layers == config().num_layers);
  TAHMIN_CHECK(cache.shape().num_kv_heads == config().num_kv_heads);
  TAHMIN_CHECK(cache.shape().head_dim == config().head_dim);
  const ForwardPass pass{*weights_, cache, scratch.state(), pool};
  StartPass(pass, batch);
  for (int32_t layer = 0; layer < config().num_layers; ++layer) {
    if (pass.scratch.num_rows == 0) return;
    AttentionBlock(pass, layer);
    if (pass.scratch.num_rows == 0) return;
    FeedForwardBlock(pass, weights_->layers[layer]);
  }
  ComputeLogits(pass);
  pass.scratch.profile.Lap(PassStage::kHead);
}

}  // namespace tahmin
