// A decoder-only transformer ready to run: packed weights and the one Forward pass that prefill (a
// chain), plain decoding (one row) and verification (a tree) share. Weights are immutable after
// Load and may be shared by threads; a ForwardScratch and a KvCache belong to one driver at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "gguf/gguf_file.h"
#include "kernels/activation_rows.h"
#include "kv/kv_cache.h"
#include "model/config.h"
#include "model/pass_profile.h"
#include "model/weight_approximation.h"
#include "step/token_batch.h"

namespace tahmin {

// Called while weights are packed: bytes done, bytes in all.
using LoadProgress = std::function<void(uint64_t done_bytes, uint64_t total_bytes)>;

struct ModelLoadOptions {
  LoadProgress progress = {};              // may be empty
  WeightApproximation approximation = {};  // exact; only a draft model may be anything else
};

// Figures about the weights that `inspect` and the memory plan report.
struct WeightFigures {
  uint64_t gguf_bytes = 0;  // of the tensors that a one-row pass reads in full (no embedding table,
                            // unless it is also the output head)
  uint64_t packed_bytes = 0;  // that a one-row pass reads of packed matrices
  uint64_t macs_per_row = 0;  // their elements (norms and biases not counted)
};

class ForwardScratch;
struct ModelWeights;  // model/weights.h

class Model {
 public:
  static absl::StatusOr<std::unique_ptr<Model>> Load(std::shared_ptr<const GgufFile> file,
                                                     const ModelLoadOptions& options,
                                                     ThreadPool& pool);
  ~Model();

  const ModelConfig& config() const;
  KvShape MakeKvShape(KvType type) const;
  WeightFigures weight_figures() const;
  // The activation format of each kind of matrix, as text ("block 256, residual above 20 x rms").
  std::string DescribeActivationFormats() const;

  // Scratch for batches of at most max_rows rows, of which max_logit_rows want logits.
  absl::StatusOr<std::unique_ptr<ForwardScratch>> CreateScratch(int32_t max_rows,
                                                                int32_t max_logit_rows,
                                                                ThreadPool& pool) const;
  static size_t ScratchBytes(const ModelConfig& config, int32_t max_rows, int32_t max_logit_rows,
                             int32_t num_threads, const WeightApproximation& approximation = {});
  // What Load will allocate, from the tensor table alone (memory plan).
  static absl::StatusOr<size_t> PlannedWeightBytes(const GgufFile& file,
                                                   const WeightApproximation& approximation = {});

  // With a head cut to frequent tokens: later passes with this scratch give logits to these tokens
  // too (the prompt and the text so far). Any ids; with other heads all tokens have their chance
  // anyway and nothing happens. Fails for want of memory and changes nothing then.
  absl::Status OfferTokens(std::span<const int32_t> tokens, ForwardScratch& scratch,
                           ThreadPool& pool) const;

  // Runs the batch. The sequences' tree slots are reserved; keys and values of row r land in its
  // tree slot. Token ids are in [0, vocab_size) (checked by the caller; a broken id is a broken
  // invariant). Afterwards scratch.logits() holds one row for each row with wants_logits, in batch
  // order.
  void Forward(const TokenBatch& batch, KvCache& cache, ForwardScratch& scratch,
               ThreadPool& pool) const;

 private:
  Model();
  std::unique_ptr<const ModelWeights> weights_;
};

class ForwardScratch {
 public:
  ~ForwardScratch();
  // [number of rows that wanted logits, vocab_size] float32, valid until the next Forward.
  std::span<const float> logits() const;
  int32_t max_rows() const;
  int32_t max_logit_rows() const;
  // Times of the last Forward, and rows that its matmuls had (base, residual), summed over all
  // matmuls: for inspect --curve.
  const PassStageMs& stage_ms() const;
  int64_t base_rows() const;
  int64_t residual_rows() const;

  struct State;  // model/forward_scratch.h
  explicit ForwardScratch(std::unique_ptr<State> state);
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

}  // namespace tahmin
