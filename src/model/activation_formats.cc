#include "model/activation_formats.h"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/tensor_type.h"

namespace tahmin {
namespace {

constexpr int32_t kNarrowBlock = 32;
constexpr int32_t kWideBlock = 256;
// Of a row's energy in one value: from here on the row has a residual row.
constexpr double kResidualPeakShare = 0.25;

kernels::ActivationFormat FormatFor(int64_t columns, bool has_super_blocks) {
  if (!has_super_blocks) return {.block = kNarrowBlock, .residual_threshold = 0.0f};
  int32_t block = kWideBlock;
  while (block > kNarrowBlock && columns % block != 0) block /= 2;
  const double threshold = std::sqrt(kResidualPeakShare * static_cast<double>(columns));
  return {.block = block, .residual_threshold = static_cast<float>(threshold)};
}

bool HasSuperBlocks(const kernels::PackedMatrix& matrix) {
  return kernels::LayoutBlockColumns(matrix.layout()) == kSuperBlock;
}

// One format for all matrices of these kinds, in all layers.
kernels::ActivationFormat FormatOf(std::span<const LayerWeights> layers,
                                   std::initializer_list<LinearWeights LayerWeights::*> kinds) {
  bool has_super_blocks = false;
  int64_t columns = 0;
  for (const LayerWeights& layer : layers) {
    for (LinearWeights LayerWeights::*kind : kinds) {
      has_super_blocks = has_super_blocks || HasSuperBlocks((layer.*kind).matrix);
      columns = (layer.*kind).matrix.columns();
    }
  }
  return FormatFor(columns, has_super_blocks);
}

}  // namespace

ActivationFormats ChooseActivationFormats(std::span<const LayerWeights> layers,
                                          const kernels::PackedMatrix& output_head) {
  using Layer = LayerWeights;
  return {
      .attention_input = FormatOf(layers, {&Layer::query, &Layer::key, &Layer::value}),
      .attention_output = FormatOf(layers, {&Layer::attention_output}),
      .feed_forward_input = FormatOf(layers, {&Layer::gate, &Layer::up}),
      .feed_forward_down = FormatOf(layers, {&Layer::down}),
      .output_head = FormatFor(output_head.columns(), HasSuperBlocks(output_head)),
  };
}

std::string DescribeFormats(const ActivationFormats& formats) {
  const std::pair<std::string_view, const kernels::ActivationFormat*> kinds[] = {
      {"attention input", &formats.attention_input},
      {"attention output", &formats.attention_output},
      {"feed-forward input", &formats.feed_forward_input},
      {"feed-forward down", &formats.feed_forward_down},
      {"output head", &formats.output_head},
  };
  std::string text;
  for (const auto& [name, format] : kinds) {
    text += fmt::format("{}{}: block {}, ", text.empty() ? "" : "\n", name, format->block);
    text += format->residual_threshold > 0.0f
                ? fmt::format("residual above {:.1f} x rms", format->residual_threshold)
                : "no residual";
  }
  return text;
}

}  // namespace tahmin
