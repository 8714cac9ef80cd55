#include "model/feed_forward.h"

#include "kernels/kernels.h"
#include "kernels/matmul.h"

namespace tahmin {
namespace {

void ProjectGateAndUp(const ForwardPass& pass, const LayerWeights& layer) {
  ForwardScratch::State& scratch = pass.scratch;
  const int64_t width = scratch.feed_forward_length;
  const kernels::MatMulJob jobs[] = {
      {&layer.gate.matrix, layer.gate.bias_or_null(), scratch.gate_row(0), width},
      {&layer.up.matrix, layer.up.bias_or_null(), scratch.up_row(0), width},
  };
  FillAndMultiply(pass, PassStage::kGateAndUp, scratch.embedding_length,
                  pass.weights.formats.feed_forward_input, jobs, [&](int32_t row, float* out) {
                    kernels::RmsNorm(scratch.hidden_row(row), layer.feed_forward_norm.data(),
                                     pass.weights.config.rms_epsilon, scratch.embedding_length,
                                     out);
                  });
}

void ProjectDown(const ForwardPass& pass, const LayerWeights& layer) {
  ForwardScratch::State& scratch = pass.scratch;
  const int64_t width = scratch.feed_forward_length;
  const kernels::MatMulJob jobs[] = {{&layer.down.matrix, layer.down.bias_or_null(),
                                      scratch.projected_row(0), scratch.embedding_length}};
  FillAndMultiply(pass, PassStage::kDown, width, pass.weights.formats.feed_forward_down, jobs,
                  [&](int32_t row, float* out) {
                    kernels::SiluMultiply(scratch.gate_row(row), scratch.up_row(row), width, out);
                  });
}

}  // namespace

void FeedForwardBlock(const ForwardPass& pass, const LayerWeights& layer) {
  ForwardScratch::State& scratch = pass.scratch;
  ProjectGateAndUp(pass, layer);
  ProjectDown(pass, layer);
  ForEachRow(pass, scratch.embedding_length, [&](int32_t row) {
    kernels::Add(scratch.hidden_row(row), scratch.projected_row(row), scratch.embedding_length);
  });
  scratch.profile.Lap(PassStage::kResidualAdds);
}

}  // namespace tahmin
