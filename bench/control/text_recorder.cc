#include "bench/control/text_recorder.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "base/status_macros.h"
#include "control/adaptive.h"
#include "draft/draft_model.h"
#include "draft/drafter_list.h"
#include "fmt/format.h"
#include "kv/kv_cache.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace tahmin::bench {
namespace {

constexpr int32_t kRecordedTokens = 12;  // of a row: more than any drafter looks at
constexpr int32_t kChunkRows = 64;
// A wrong path is of use only as long as the drafter would go on.
constexpr int32_t kWrongPathTokens = 4;
constexpr float kWrongPathSurvival = 0.03f;

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::vector<int32_t> AllTokens(const TextRecord& text) {
  std::vector<int32_t> tokens = text.prompt;
  tokens.insert(tokens.end(), text.output.begin(), text.output.end());
  return tokens;
}

// Behind the output token that ends `prefix`.
RecordedDraft DraftBehind(Drafter& draft_model, const SequenceView& prefix, int32_t next_token) {
  RecordedDraft recorded;
  const DraftTree choices =
      draft_model.Draft(prefix, {.max_tokens = 2, .max_depth = 1, .spare_choices = 1});
  if (!choices.empty()) recorded.first = {choices.nodes[0].token, choices.nodes[0].confidence};
  if (choices.size() > 1) recorded.second = {choices.nodes[1].token, choices.nodes[1].confidence};
  if (recorded.first.token == next_token) return recorded;
  const DraftTree chain = draft_model.Draft(prefix, {.max_tokens = 1 + kWrongPathTokens,
                                                     .max_depth = 1 + kWrongPathTokens,
                                                     .min_survival = kWrongPathSurvival});
  for (int32_t i = 1; i < chain.size(); ++i) {
    recorded.wrong_path.push_back({chain.nodes[i].token, chain.nodes[i].confidence});
  }
  return recorded;
}

}  // namespace

TextRecorder::TextRecorder(EngineOptions options, int32_t max_tokens)
    : options_(std::move(options)), max_tokens_(max_tokens) {}

absl::StatusOr<std::unique_ptr<TextRecorder>> TextRecorder::Create(EngineOptions options,
                                                                   int32_t max_tokens) {
  options.draft.drafter = std::string(kAuto);
  options.draft.draft_max = AdaptiveOptions{}.max_tokens;
  std::unique_ptr<TextRecorder> recorder(new TextRecorder(options, max_tokens));
  TAHMIN_ASSIGN_OR_RETURN(recorder->engine_, Engine::Create(options));
  TAHMIN_ASSIGN_OR_RETURN(recorder->template_, ChatTemplate::FromFile(recorder->engine_->file()));
  return recorder;
}

int32_t TextRecorder::VocabSize() const {
  int32_t size = std::min(engine_->tokenizer().vocab_size(), engine_->model().config().vocab_size);
  if (engine_->draft_model() != nullptr) {
    size = std::min(size, engine_->draft_model()->config().vocab_size);
  }
  return size;
}

RecordHeader TextRecorder::Header() const {
  return {.target = FileName(options_.model_path),
          .draft = FileName(options_.draft_model_path),
          .vocab_size = VocabSize(),
          .max_tokens = max_tokens_};
}

absl::Status TextRecorder::Answer(const std::string& question, TextRecord* text, bool* has_ended) {
  TAHMIN_ASSIGN_OR_RETURN(const std::string rendered,
                          template_->Render({{"user", question}}, /*add_generation_prompt=*/true));
  GenerationRequest request;
  TAHMIN_ASSIGN_OR_RETURN(
      request.prompt_tokens,
      engine_->tokenizer().Tokenize(rendered, {.add_special = false, .parse_special = true}));
  request.draft = options_.draft;
  request.options.max_tokens = max_tokens_;
  request.options.sampling.temperature = 0;
  TAHMIN_ASSIGN_OR_RETURN(GenerationResult result, engine_->Generate(request));
  text->prompt = std::move(request.prompt_tokens);
  text->output = std::move(result.tokens);
  *has_ended = result.finish_reason == "stop";
  return absl::OkStatus();
}

// With has_ended the row behind the last token says which end token came next.
absl::Status TextRecorder::AddRows(bool has_ended, TextRecord* text) {
  const Model& model = engine_->model();
  const std::vector<int32_t> tokens = AllTokens(*text);
  const size_t num_rows = text->output.size() - (has_ended ? 0 : 1);
  KvCache cache(model.MakeKvShape(options_.kv_type));
  TAHMIN_ASSIGN_OR_RETURN(const int32_t sequence,
                          cache.AddSequence(static_cast<int64_t>(tokens.size())));
  TAHMIN_ASSIGN_OR_RETURN(const auto scratch,
                          model.CreateScratch(kChunkRows, kChunkRows, engine_->pool()));
  const auto row_size = static_cast<size_t>(model.config().vocab_size);
  for (size_t begin = 0; text->rows.size() < num_rows; begin += kChunkRows) {
    const auto count = static_cast<int32_t>(std::min<size_t>(kChunkRows, tokens.size() - begin));
    TokenBatch batch;
    batch.AppendChain(sequence, &tokens[begin], count, /*all_logits=*/false);
    for (int32_t i = 0; i < count; ++i) {
      batch.rows[i].wants_logits = begin + i >= text->prompt.size();
    }
    TAHMIN_RETURN_IF_ERROR(cache.Reserve(sequence, count));
    model.Forward(batch, cache, *scratch, engine_->pool());
    std::vector<int32_t> all_rows(count);
    std::iota(all_rows.begin(), all_rows.end(), 0);
    cache.Commit(sequence, all_rows);
    std::span<const float> logits = scratch->logits();
    for (; !logits.empty() && text->rows.size() < num_rows; logits = logits.subspan(row_size)) {
      text->rows.push_back(TopLogprobs(logits.first(VocabSize()), kRecordedTokens));
    }
  }
  if (has_ended) text->output.push_back(text->rows.back().front().token);
  return absl::OkStatus();
}

// From the end to the beginning: so the draft model reads the text once.
absl::Status TextRecorder::AddDrafts(TextRecord* text) {
  const std::vector<int32_t> tokens = AllTokens(*text);
  SamplingOptions sampling;
  sampling.temperature = 0;
  sampling.seed = 0;
  TAHMIN_ASSIGN_OR_RETURN(
      const std::unique_ptr<Drafter> draft_model,
      MakeDraftModel({.model = engine_->draft_model(),
                      .pool = &engine_->pool(),
                      .kv_type = options_.draft_kv_type,
                      .context_tokens = static_cast<int64_t>(tokens.size()) + kWrongPathTokens,
                      .valid_vocab_size = VocabSize()},
                     sampling));
  const size_t num_prompt = text->prompt.size();
  text->drafts.resize(text->rows.size());
  for (size_t position = text->drafts.size(); position-- > 0;) {
    const SequenceView prefix{
        .tokens = std::span<const int32_t>(tokens).first(num_prompt + position + 1),
        .num_prompt_tokens = static_cast<int32_t>(num_prompt),
        .sampling = &sampling};
    text->drafts[position] = DraftBehind(*draft_model, prefix, text->output[position + 1]);
  }
  return absl::OkStatus();
}

absl::StatusOr<TextRecord> TextRecorder::Record(const PromptEntry& prompt) {
  TextRecord text{.id = prompt.id, .group = prompt.group};
  bool has_ended = false;
  TAHMIN_RETURN_IF_ERROR(Answer(prompt.turns.front(), &text, &has_ended));
  if (text.output.size() + (has_ended ? 1 : 0) < 2 || text.output.empty()) {
    return absl::OutOfRangeError(fmt::format("{}: the answer has no second token", prompt.id));
  }
  TAHMIN_RETURN_IF_ERROR(AddRows(has_ended, &text));
  for (size_t i = 0; i < text.rows.size(); ++i) {
    if (text.rows[i].front().token == text.output[i + 1]) continue;
    return absl::InternalError(fmt::format("{}: output token {} is {}, the target's pass says {}",
                                           prompt.id, i + 1, text.output[i + 1],
                                           text.rows[i].front().token));
  }
  if (engine_->draft_model() != nullptr) TAHMIN_RETURN_IF_ERROR(AddDrafts(&text));
  return text;
}

}  // namespace tahmin::bench
