#include "measure/cost_curve.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/aligned_buffer.h"
#include "base/median.h"
#include "base/status_macros.h"
#include "base/stopwatch.h"
#include "kernels/machine_limits.h"

namespace tahmin {

namespace {

constexpr size_t kStreamingBytes = size_t{1} << 30;
constexpr int32_t kPrefillRows = 256;

struct Samples {
  std::vector<double> ms;
  std::array<std::vector<double>, kNumPassStages> stage_ms;
  double extra_rows_fraction = 0;
};

// Passes of one model behind the same committed tokens of a text.
class TextPasses {
 public:
  TextPasses(const Model& model, const std::vector<int32_t>& text, KvType kv_type, ThreadPool& pool)
      : model_(model), text_(text), pool_(pool), cache_(model.MakeKvShape(kv_type)) {}

  // Commits `context` tokens; passes of up to max_rows rows can follow.
  absl::Status Prepare(int64_t context, int32_t max_rows) {
    context_ = context;
    const int32_t scratch_rows = std::max(max_rows, kPrefillRows);
    TAHMIN_ASSIGN_OR_RETURN(scratch_, model_.CreateScratch(scratch_rows, max_rows, pool_));
    TAHMIN_ASSIGN_OR_RETURN(sequence_, cache_.AddSequence(context + max_rows));
    for (int64_t done = 0; done < context; done += kPrefillRows) {
      const int64_t count = std::min<int64_t>(kPrefillRows, context - done);
      TAHMIN_RETURN_IF_ERROR(Forward(done, static_cast<int32_t>(count), /*all_logits=*/false));
      std::vector<int32_t> path(count);
      for (int32_t i = 0; i < count; ++i) path[i] = i;
      cache_.Commit(sequence_, path);
    }
    return absl::OkStatus();
  }

  // In ms; what the pass wrote is rolled back.
  absl::StatusOr<double> Measure(int32_t rows) {
    const Stopwatch watch;
    TAHMIN_RETURN_IF_ERROR(Forward(context_, rows, /*all_logits=*/true));
    const double ms = watch.ElapsedMs();
    cache_.Rollback(sequence_);
    return ms;
  }

  const ForwardScratch& scratch() const { return *scratch_; }  // of the last pass

 private:
  absl::Status Forward(int64_t text_begin, int32_t rows, bool all_logits) {
    TAHMIN_RETURN_IF_ERROR(cache_.Reserve(sequence_, rows));
    std::vector<int32_t> tokens(rows);
    for (int32_t i = 0; i < rows; ++i) tokens[i] = text_[(text_begin + i) % text_.size()];
    TokenBatch batch;
    batch.AppendChain(sequence_, tokens.data(), rows, all_logits);
    model_.Forward(batch, cache_, *scratch_, pool_);
    return absl::OkStatus();
  }

  const Model& model_;
  const std::vector<int32_t>& text_;
  ThreadPool& pool_;
  KvCache cache_;
  std::unique_ptr<ForwardScratch> scratch_;
  int64_t context_ = 0;
  int32_t sequence_ = -1;
};

class CurveRun {
 public:
  CurveRun(const Model& model, const std::vector<int32_t>& text, const CostCurveOptions& options,
           ThreadPool& pool)
      : options_(options), pool_(pool), target_(model, text, options.kv_type, pool) {
    if (options.draft_model == nullptr) return;
    draft_.emplace(*options.draft_model, text, options.draft_kv_type, pool);
  }

  absl::Status Prepare() {
    const int32_t max_rows = *std::max_element(options_.rows.begin(), options_.rows.end());
    if (options_.with_limits) TAHMIN_RETURN_IF_ERROR(FillStreamBuffer());
    TAHMIN_RETURN_IF_ERROR(target_.Prepare(options_.context, max_rows));
    if (draft_) TAHMIN_RETURN_IF_ERROR(draft_->Prepare(options_.context, 1));
    return absl::OkStatus();
  }

  absl::Status MeasureRows(int32_t rows) {
    TAHMIN_ASSIGN_OR_RETURN(const double ms, target_.Measure(rows));
    Samples& samples = samples_[rows];
    samples.ms.push_back(ms);
    const ForwardScratch& scratch = target_.scratch();
    for (size_t stage = 0; stage < kNumPassStages; ++stage)
      samples.stage_ms[stage].push_back(scratch.stage_ms()[stage]);
    samples.extra_rows_fraction =
        static_cast<double>(scratch.residual_rows()) / std::max<int64_t>(1, scratch.base_rows());
    return absl::OkStatus();
  }

  absl::Status MeasureDraft() {
    if (!draft_) return absl::OkStatus();
    TAHMIN_ASSIGN_OR_RETURN(const double ms, draft_->Measure(1));
    draft_ms_.push_back(ms);
    return absl::OkStatus();
  }

  void MeasureLimits() {
    if (!options_.with_limits) return;
    for (int64_t distance : kernels::StreamingPrefetchDistances()) {
      streaming_[distance].push_back(
          kernels::MeasureStreamingRead(stream_buffer_.As<uint8_t>(), distance, pool_));
    }
    int8_.push_back(kernels::MeasureInt8Macs(pool_));
    fp32_.push_back(kernels::MeasureFp32Macs(pool_));
  }

  void DropWarmUp() {
    samples_.clear();
    draft_ms_.clear();
    streaming_.clear();
    int8_.clear();
    fp32_.clear();
  }

  CostCurve Result() const {
    CostCurve curve;
    for (int32_t rows : options_.rows) {
      const Samples& samples = samples_.at(rows);
      const auto [low, high] = std::minmax_element(samples.ms.begin(), samples.ms.end());
      CurvePoint point = {rows, Median(samples.ms), *low, *high, samples.extra_rows_fraction};
      for (size_t stage = 0; stage < kNumPassStages; ++stage)
        point.stage_ms[stage] = Median(samples.stage_ms[stage]);
      curve.points.push_back(point);
    }
    for (const auto& [distance, speeds] : streaming_) {
      const double median = Median(speeds);
      if (median <= curve.streaming_bytes_per_second) continue;
      curve.streaming_bytes_per_second = median;
      curve.streaming_prefetch_distance = distance;
    }
    curve.rounds = options_.rounds;
    if (!draft_ms_.empty()) curve.draft_ms = Median(draft_ms_);
    if (!options_.with_limits) return curve;
    curve.int8_macs_per_second = Median(int8_);
    curve.fp32_macs_per_second = Median(fp32_);
    return curve;
  }

 private:
  absl::Status FillStreamBuffer() {
    TAHMIN_ASSIGN_OR_RETURN(stream_buffer_, AlignedBuffer::Create(kStreamingBytes));
    const std::span<uint64_t> words = stream_buffer_.As<uint64_t>();
    pool_.ParallelFor(64, [&](int64_t part, int) {
      const size_t begin = words.size() / 64 * part;
      for (size_t i = 0; i < words.size() / 64; ++i) words[begin + i] = begin + i;
    });
    return absl::OkStatus();
  }

  const CostCurveOptions& options_;
  ThreadPool& pool_;
  TextPasses target_;
  std::optional<TextPasses> draft_;
  AlignedBuffer stream_buffer_;
  std::map<int32_t, Samples> samples_;
  std::vector<double> draft_ms_;
  std::map<int64_t, std::vector<double>> streaming_;
  std::vector<double> int8_, fp32_;
};

}  // namespace

absl::StatusOr<CostCurve> MeasureCostCurve(const Model& model,
                                           const std::vector<int32_t>& text_tokens,
                                           const CostCurveOptions& options, ThreadPool& pool,
                                           const std::function<void(int64_t, int64_t)>& progress) {
  CurveRun run(model, text_tokens, options, pool);
  TAHMIN_RETURN_IF_ERROR(run.Prepare());
  for (int32_t round = -1; round < options.rounds; ++round) {  // round -1 warms up
    for (size_t i = 0; i < options.rows.size(); ++i) {
      const size_t index = round % 2 == 0 ? i : options.rows.size() - 1 - i;
      TAHMIN_RETURN_IF_ERROR(run.MeasureRows(options.rows[index]));
    }
    TAHMIN_RETURN_IF_ERROR(run.MeasureDraft());
    run.MeasureLimits();
    if (round == -1) run.DropWarmUp();
    progress(round + 2, options.rounds + 1);
  }
  return run.Result();
}

std::string_view CostCurveText() {
  return R"text(A small harbour town keeps its own hours. The fishing boats leave before the bakery opens, and by the time
the first bus climbs the hill the nets are already in the water. Old Mara, who mends sails in the shed behind the church,
says that the wind tells her what day it is: on Mondays it smells of tar, on Fridays of bread, and on Sundays of nothing.

#include <algorithm>
#include <string>
#include <vector>

// Returns the words of a sentence, longest first; equal lengths keep their order.
std::vector<std::string> WordsByLength(const std::string& sentence) {
  std::vector<std::string> words;
  std::string word;
  for (char c : sentence) {
    if (c != ' ') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(word);
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(word);
  std::stable_sort(words.begin(), words.end(),
                   [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  return words;
}

Water boils at a lower temperature on a mountain because the air above it weighs less. At sea level it takes 100 degrees; at
3,000 metres about 90 are enough, which is why beans need more patience up there. A pressure cooker turns the trick around:
the closed lid lets the steam push back, the boiling point climbs to about 120 degrees, and dinner is ready in a third of the
time. The same idea, seen from the other end, keeps the cooling system of a car from boiling over in summer.

def moving_average(values, width):
    """Mean of each window of `width` values; fewer at the start."""
    total = 0.0
    result = []
    for index, value in enumerate(values):
        total += value
        if index >= width:
            total -= values[index - width]
        result.append(total / min(index + 1, width))
    return result

Dear Mr. Okafor, thank you for your letter of 12 March. We have checked the meter again and found that the reading for February
was entered twice. The amount of 48.20 euros will be returned to your account within ten days; the next bill will show the correct
figure. Please accept our apologies for the trouble. If anything else looks wrong, call us any weekday between eight and five.
)text";
}

}  // namespace tahmin
