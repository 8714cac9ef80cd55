#include "control/acceptance_ema.h"

#include <algorithm>

namespace tahmin {
namespace {

// A count forgets with a window of about 50 of its own events: acceptance changes with the text
// (prose to code) within a request.
constexpr double kDecay = 0.98;
// Events that a prior weighs: the confidence itself, for its bin; the pooled estimate of a bin, for
// the bin at one depth; what was known of a text before anything was drafted, for its depths.
constexpr double kConfidenceWeight = 4;
constexpr double kPooledWeight = 8;
constexpr double kDepthWeight = 12;

double Shrink(double accepted, double tested, double prior, double weight) {
  return (accepted + weight * prior) / (tested + weight);
}

}  // namespace

void AcceptanceEma::Add(Count* count, bool is_accepted) {
  count->tested = kDecay * count->tested + 1;
  count->accepted = kDecay * count->accepted + (is_accepted ? 1 : 0);
}

void AcceptanceEma::Add(int32_t depth, float confidence, bool is_accepted) {
  const int32_t bin = ConfidenceScale::BinOf(confidence);
  Add(&bins_[bin], is_accepted);
  Add(&class_bins_[ClassOf(depth)][bin], is_accepted);
}

void AcceptanceEma::AddChoice(int32_t depth, bool is_accepted) {
  Add(&depths_[std::clamp(depth, 1, kDepths) - 1], is_accepted);
  Add(&all_, is_accepted);
}

void AcceptanceEma::Forget(double share, double share_of_depths) {
  const auto weigh = [](Count& count, double weight) {
    count.tested *= weight;
    count.accepted *= weight;
  };
  for (Count& count : bins_) weigh(count, 1 - share);
  for (auto& bins : class_bins_)
    for (Count& count : bins) weigh(count, 1 - share);
  for (Count& count : depths_) weigh(count, 1 - share_of_depths);
  weigh(all_, 1 - share_of_depths);
}

double AcceptanceEma::OfBin(int32_t bin) const {
  const double middle = (bin + 0.5) / ConfidenceScale::kBins;
  return Shrink(bins_[bin].accepted, bins_[bin].tested, middle, kConfidenceWeight);
}

double AcceptanceEma::OfBin(int32_t depth_class, int32_t bin) const {
  const Count& count = class_bins_[depth_class][bin];
  return Shrink(count.accepted, count.tested, OfBin(bin), kPooledWeight);
}

float AcceptanceEma::Acceptance(int32_t depth, float confidence) const {
  ConfidenceScale scale;
  const int32_t depth_class = ClassOf(depth);
  for (int32_t bin = 0; bin < ConfidenceScale::kBins; ++bin) {
    scale.acceptance[bin] = static_cast<float>(OfBin(depth_class, bin));
  }
  return scale.Of(confidence);
}

ConfidenceScale AcceptanceEma::Scale() const {
  ConfidenceScale scale;
  for (int32_t bin = 0; bin < ConfidenceScale::kBins; ++bin) {
    scale.acceptance[bin] = static_cast<float>(OfBin(bin));
  }
  return scale;
}

double AcceptanceEma::AtDepth(int32_t depth, double prior) const {
  const Count& count = depths_[std::clamp(depth, 1, kDepths) - 1];
  const double overall = Shrink(all_.accepted, all_.tested, prior, kDepthWeight);
  return Shrink(count.accepted, count.tested, overall, kDepthWeight);
}

}  // namespace tahmin
