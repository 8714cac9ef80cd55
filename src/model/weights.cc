#include "model/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "gguf/dequantize.h"
#include "model/pack_tensor.h"

namespace tahmin {
namespace {

struct PlannedMatrix {
  const GgufTensor* tensor;
  kernels::PackedMatrix* destination;
};
struct PlannedVector {
  const GgufTensor* tensor;
  std::vector<float>* destination;
};

// Which tensor of the file goes where. Names, types and shapes are all checked before the first
// matrix is packed.
class WeightPlan {
 public:
  explicit WeightPlan(const GgufFile& file) : file_(file), is_used_(file.tensors().size()) {}

  // Sizes weights.layers and plans every tensor; weights.config is set.
  absl::Status Build(ModelWeights& weights);

  // All but the output head.
  const std::vector<PlannedMatrix>& matrices() const { return matrices_; }
  const std::vector<PlannedVector>& vectors() const { return vectors_; }
  const GgufTensor& output() const { return *output_; }

 private:
  const GgufTensor* Take(const std::string& name);
  // The tensor, which must have exactly this shape; nullptr when it is absent and not required.
  absl::StatusOr<const GgufTensor*> TakeShaped(const std::string& name,
                                               std::initializer_list<int64_t> shape,
                                               bool is_required);
  absl::Status AddVector(const std::string& name, int64_t size, bool is_required,
                         std::vector<float>& destination);
  absl::Status AddLinear(const std::string& name, int64_t rows, int64_t columns, Bias bias,
                         LinearWeights& destination);
  absl::Status AddLayer(int32_t layer_index, const ModelConfig& config, LayerWeights& layer);
  absl::Status AddOutput(ModelWeights& weights);
  absl::Status CheckAllUsed() const;

  const GgufFile& file_;
  std::vector<bool> is_used_;
  std::vector<PlannedMatrix> matrices_;
  std::vector<PlannedVector> vectors_;
  const GgufTensor* output_ = nullptr;
};

const GgufTensor* WeightPlan::Take(const std::string& name) {
  const GgufTensor* tensor = file_.FindTensor(name);
  if (tensor != nullptr) is_used_[tensor - file_.tensors().data()] = true;
  return tensor;
}

absl::StatusOr<const GgufTensor*> WeightPlan::TakeShaped(const std::string& name,
                                                         std::initializer_list<int64_t> shape,
                                                         bool is_required) {
  const GgufTensor* tensor = Take(name);
  if (tensor == nullptr) {
    if (!is_required) return nullptr;
    return absl::InvalidArgumentError(fmt::format("missing tensor {}", name));
  }
  // Trailing dimensions of 1 do not change a shape.
  std::vector<int64_t> found = tensor->dimensions;
  while (found.size() > shape.size() && found.back() == 1) found.pop_back();
  if (!std::ranges::equal(found, shape)) {
    return absl::InvalidArgumentError(fmt::format("tensor {} has shape [{}], expected [{}]", name,
                                                  fmt::join(tensor->dimensions, ", "),
                                                  fmt::join(shape, ", ")));
  }
  const uint32_t type_number = static_cast<uint32_t>(tensor->type);
  const TensorTypeTraits* type = FindTensorType(type_number);
  if (type == nullptr || !type->is_weight) {
    return absl::UnimplementedError(fmt::format("tensor {} has type {}: not supported as a weight",
                                                name, TensorTypeName(type_number)));
  }
  if (tensor->columns() % type->block_elements != 0) {
    return absl::InvalidArgumentError(
        fmt::format("tensor {} has {} columns, expected a multiple of the {} block of {}", name,
                    tensor->columns(), type->name, type->block_elements));
  }
  return tensor;
}

absl::Status WeightPlan::AddVector(const std::string& name, int64_t size, bool is_required,
                                   std::vector<float>& destination) {
  TAHMIN_ASSIGN_OR_RETURN(const GgufTensor* tensor, TakeShaped(name, {size}, is_required));
  if (tensor != nullptr) vectors_.push_back({tensor, &destination});
  return absl::OkStatus();
}

absl::Status WeightPlan::AddLinear(const std::string& name, int64_t rows, int64_t columns,
                                   Bias bias, LinearWeights& destination) {
  TAHMIN_ASSIGN_OR_RETURN(const GgufTensor* tensor,
                          TakeShaped(name + ".weight", {columns, rows}, true));
  matrices_.push_back({tensor, &destination.matrix});
  return AddVector(name + ".bias", rows, bias == Bias::kRequired, destination.bias);
}

absl::Status WeightPlan::AddLayer(int32_t layer_index, const ModelConfig& config,
                                  LayerWeights& layer) {
  const ArchitectureTraits& traits = TraitsOf(config.architecture);
  for (const LayerMatrix& matrix : traits.matrices) {
    TAHMIN_RETURN_IF_ERROR(AddLinear(
        fmt::format("blk.{}.{}", layer_index, matrix.name), DimensionSize(matrix.rows, config),
        DimensionSize(matrix.columns, config), matrix.bias, layer.*matrix.member));
  }
  for (const LayerVector& vector : traits.vectors) {
    TAHMIN_RETURN_IF_ERROR(AddVector(fmt::format("blk.{}.{}.weight", layer_index, vector.name),
                                     DimensionSize(vector.size, config), true,
                                     layer.*vector.member));
  }
  return absl::OkStatus();
}

// Without output.weight the embedding table is the output head.
absl::Status WeightPlan::AddOutput(ModelWeights& weights) {
  const ModelConfig& config = weights.config;
  TAHMIN_RETURN_IF_ERROR(
      AddVector("output_norm.weight", config.embedding_length, true, weights.output_norm));
  TAHMIN_ASSIGN_OR_RETURN(
      const GgufTensor* output,
      TakeShaped("output.weight", {config.embedding_length, config.vocab_size}, false));
  output_ = output != nullptr ? output : weights.embedding;
  return AddVector("output.bias", config.vocab_size, false, weights.output.bias);
}

absl::Status WeightPlan::CheckAllUsed() const {
  for (size_t i = 0; i < is_used_.size(); ++i) {
    if (is_used_[i]) continue;
    return absl::UnimplementedError(fmt::format(
        "tensor {} is not part of this architecture, and ignoring it could change the text",
        file_.tensors()[i].name));
  }
  return absl::OkStatus();
}

absl::Status WeightPlan::Build(ModelWeights& weights) {
  const ModelConfig& config = weights.config;
  TAHMIN_ASSIGN_OR_RETURN(
      weights.embedding,
      TakeShaped("token_embd.weight", {config.embedding_length, config.vocab_size}, true));
  weights.layers.resize(config.num_layers);
  for (int32_t i = 0; i < config.num_layers; ++i) {
    TAHMIN_RETURN_IF_ERROR(AddLayer(i, config, weights.layers[i]));
  }
  TAHMIN_RETURN_IF_ERROR(AddOutput(weights));
  TAHMIN_RETURN_IF_ERROR(
      AddVector("rope_freqs.weight", config.rotary_dimensions / 2, false, weights.rope_factors));
  return CheckAllUsed();
}

absl::Status ReadVectors(const WeightPlan& plan) {
  for (const PlannedVector& vector : plan.vectors()) {
    vector.destination->resize(vector.tensor->columns());
    TAHMIN_RETURN_IF_ERROR(
        DequantizeRow(vector.tensor->type, vector.tensor->bytes, *vector.destination));
  }
  return absl::OkStatus();
}

absl::Status CheckRopeFactors(std::span<const float> factors) {
  for (const float factor : factors) {
    if (std::isfinite(factor) && factor > 0.0f) continue;
    return absl::InvalidArgumentError(
        fmt::format("tensor rope_freqs.weight holds {}, expected finite numbers > 0", factor));
  }
  return absl::OkStatus();
}

// An explicitly wanted head that the model cannot have.
absl::Status CheckHead(const HeadShape& head, const ModelConfig& config) {
  if (head.kind != DraftHead::kCoarse || config.embedding_length <= TwoBitRows::kMostColumns) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("a coarse output head needs embeddings of at most {} numbers, found {}",
                  TwoBitRows::kMostColumns, config.embedding_length));
}

// Packs one matrix after the other and each in slices (each over all threads), so that only one
// slice is in memory twice.
class Packer {
 public:
  Packer(const WeightPlan& plan, const ModelLoadOptions& options, ThreadPool& pool,
         ModelWeights& weights)
      : plan_(plan), options_(options), pool_(pool), weights_(weights) {
    for (const PlannedMatrix& matrix : plan.matrices()) total_bytes_ += matrix.tensor->bytes.size();
    total_bytes_ += plan.output().bytes.size();
  }

  absl::Status PackAll(const GgufFile& file) {
    for (const PlannedMatrix& matrix : plan_.matrices()) {
      TAHMIN_ASSIGN_OR_RETURN(*matrix.destination,
                              PackTensor(*matrix.tensor, options_.approximation.to_four_bits,
                                         DroppingPool(file, *matrix.tensor)));
      Count(*matrix.destination);
      Finish(*matrix.tensor);
    }
    TAHMIN_RETURN_IF_ERROR(PackHead(file));
    Finish(plan_.output());
    return absl::OkStatus();
  }

 private:
  // Large enough that waiting for the last thread of a slice and giving its pages back cost
  // nothing, small beside any model.
  static constexpr size_t kSliceBytes = size_t{2} << 20;

  absl::Status PackHead(const GgufFile& file) {
    const GgufTensor& output = plan_.output();
    const bool to_four_bits = options_.approximation.to_four_bits;
    const kernels::SlicedPool pool = DroppingPool(file, output);
    switch (weights_.head.kind) {
      case DraftHead::kFrequent: {
        TAHMIN_ASSIGN_OR_RETURN(weights_.frequent_head,
                                BuildFrequentHead(file, output, weights_.output.bias, weights_.head,
                                                  to_four_bits, pool));
        Count(weights_.frequent_head->matrix);
        return absl::OkStatus();
      }
      case DraftHead::kCoarse: {
        TAHMIN_ASSIGN_OR_RETURN(weights_.coarse_head, BuildCoarseHead(output, weights_.head, pool));
        weights_.figures.packed_bytes += weights_.coarse_head->coarse_rows.num_bytes();
        weights_.figures.macs_per_row += static_cast<uint64_t>(output.rows() * output.columns());
        return absl::OkStatus();
      }
      case DraftHead::kAuto:
      case DraftHead::kExact:
        break;
    }
    TAHMIN_ASSIGN_OR_RETURN(weights_.output.matrix, PackTensor(output, to_four_bits, pool));
    Count(weights_.output.matrix);
    return absl::OkStatus();
  }

  void Count(const kernels::PackedMatrix& matrix) {
    weights_.figures.packed_bytes += matrix.packed_bytes();
    weights_.figures.macs_per_row += static_cast<uint64_t>(matrix.rows() * matrix.columns());
  }

  // Drops the tensor's pages slice by slice as its rows are packed.
  kernels::SlicedPool DroppingPool(const GgufFile& file, const GgufTensor& tensor) {
    const size_t row_bytes = tensor.bytes.size() / static_cast<size_t>(tensor.rows());
    kernels::SlicedPool pool(pool_);
    pool.slice_rows = static_cast<int64_t>(std::max<size_t>(1, kSliceBytes / row_bytes));
    pool.on_done = [this, &file, &tensor, row_bytes](int64_t begin, int64_t end) {
      const size_t done = static_cast<size_t>(end) * row_bytes;
      const size_t before = static_cast<size_t>(begin) * row_bytes;
      file.DropPages(tensor.bytes.subspan(before, done - before));
      Report(weights_.figures.gguf_bytes + done);
    };
    return pool;
  }

  void Finish(const GgufTensor& tensor) {
    weights_.figures.gguf_bytes += tensor.bytes.size();
    Report(weights_.figures.gguf_bytes);
  }

  void Report(uint64_t done_bytes) {
    if (done_bytes == reported_bytes_) return;
    reported_bytes_ = done_bytes;
    if (options_.progress) options_.progress(done_bytes, total_bytes_);
  }

  const WeightPlan& plan_;
  const ModelLoadOptions& options_;
  ThreadPool& pool_;
  ModelWeights& weights_;
  uint64_t total_bytes_ = 0, reported_bytes_ = 0;
};

size_t PlannedHeadBytes(const GgufFile& file, const GgufTensor& output, const HeadShape& head,
                        const WeightApproximation& approximation) {
  const bool to_four_bits = approximation.to_four_bits;
  const int64_t vocab_size = output.rows();
  if (head.kind == DraftHead::kCoarse) return CoarseHeadBytes(output);
  if (head.kind == DraftHead::kExact) return PackedTensorBytes(output, vocab_size, to_four_bits);
  const auto num_tokens = static_cast<int64_t>(
      FrequentTokens(file, head.num_tokens, static_cast<int32_t>(vocab_size)).size());
  return PackedTensorBytes(output, num_tokens, to_four_bits) +
         static_cast<size_t>(num_tokens) * sizeof(int32_t) + static_cast<size_t>(vocab_size);
}

// Empty with a coarse head, which quantises its input itself.
const kernels::PackedMatrix& HeadMatrix(const ModelWeights& weights) {
  if (weights.frequent_head) return weights.frequent_head->matrix;
  return weights.output.matrix;
}

}  // namespace

void ModelWeights::ReadEmbedding(int32_t token, float* out) const {
  TAHMIN_CHECK(token >= 0 && token < config.vocab_size);
  const size_t row_bytes = embedding->bytes.size() / config.vocab_size;
  const absl::Status status =
      DequantizeRow(embedding->type, embedding->bytes.subspan(token * row_bytes, row_bytes),
                    {out, static_cast<size_t>(config.embedding_length)});
  TAHMIN_CHECK(status.ok());
}

absl::StatusOr<std::unique_ptr<ModelWeights>> LoadWeights(std::shared_ptr<const GgufFile> file,
                                                          const ModelLoadOptions& options,
                                                          ThreadPool& pool) {
  auto weights = std::make_unique<ModelWeights>();
  TAHMIN_ASSIGN_OR_RETURN(weights->config, ReadModelConfig(*file));
  WeightPlan plan(*file);
  TAHMIN_RETURN_IF_ERROR(plan.Build(*weights));
  weights->head = HeadShape::Of(options.approximation, weights->config);
  TAHMIN_RETURN_IF_ERROR(CheckHead(weights->head, weights->config));
  TAHMIN_RETURN_IF_ERROR(ReadVectors(plan));
  TAHMIN_RETURN_IF_ERROR(CheckRopeFactors(weights->rope_factors));
  weights->rope = RopeFrequencies(weights->config, weights->rope_factors);
  TAHMIN_RETURN_IF_ERROR(Packer(plan, options, pool, *weights).PackAll(*file));
  weights->formats = ChooseActivationFormats(weights->layers, HeadMatrix(*weights));
  weights->file = std::move(file);
  return weights;
}

absl::StatusOr<size_t> PlannedWeightBytes(const GgufFile& file,
                                          const WeightApproximation& approximation) {
  ModelWeights weights;
  TAHMIN_ASSIGN_OR_RETURN(weights.config, ReadModelConfig(file));
  WeightPlan plan(file);
  TAHMIN_RETURN_IF_ERROR(plan.Build(weights));
  const HeadShape head = HeadShape::Of(approximation, weights.config);
  TAHMIN_RETURN_IF_ERROR(CheckHead(head, weights.config));
  size_t num_bytes = PlannedHeadBytes(file, plan.output(), head, approximation);
  for (const PlannedMatrix& matrix : plan.matrices()) {
    num_bytes +=
        PackedTensorBytes(*matrix.tensor, matrix.tensor->rows(), approximation.to_four_bits);
  }
  for (const PlannedVector& vector : plan.vectors()) {
    num_bytes += vector.tensor->columns() * sizeof(float);
  }
  return num_bytes;
}

}  // namespace tahmin
