#include "apps/text_intake.h"

#include <algorithm>
#include <span>
#include <thread>
#include <utility>

#include "base/status_macros.h"

namespace tahmin::cli {

namespace {

int NumThreads(int32_t asked) {
  if (asked > 0) return asked;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

XXH64_hash_t HashOf(const InputDocument& document) {
  if (document.ids.empty()) return XXH64(document.text.data(), document.text.size(), 0);
  return XXH64(document.ids.data(), document.ids.size() * sizeof(int32_t), 1);
}

}  // namespace

TextIntake::TextIntake(const Tokenizer& tokenizer, DatastoreBuilder& builder, int32_t num_threads,
                       int64_t max_tokens)
    : tokenizer_(tokenizer), builder_(builder), pool_(NumThreads(num_threads)) {
  if (max_tokens > 0) room_ = static_cast<uint64_t>(max_tokens);
}

bool TextIntake::Take(InputDocument document) {
  constexpr size_t kBatchBytes = 16 << 20;
  if (!seen_.insert(HashOf(document)).second) {
    ++num_copies_;
    return true;
  }
  batch_bytes_ += document.text.size() + document.ids.size() * sizeof(int32_t);
  batch_.push_back(std::move(document));
  if (batch_bytes_ >= kBatchBytes) failure_ = Flush();
  return failure_.ok() && room_ > 0;
}

absl::Status TextIntake::Flush() {
  TAHMIN_RETURN_IF_ERROR(failure_);
  std::vector<absl::Status> statuses(batch_.size());
  pool_.ParallelFor(static_cast<int64_t>(batch_.size()), [&](int64_t i, int) {
    InputDocument& document = batch_[static_cast<size_t>(i)];
    if (document.text.empty()) return;
    // Text as a model would write it: no begin token, and no control token out of its spelling.
    auto ids = tokenizer_.Tokenize(document.text, {.add_special = false, .parse_special = false});
    statuses[static_cast<size_t>(i)] = ids.status();
    if (ids.ok()) document.ids = *std::move(ids);
  });
  for (size_t i = 0; i < batch_.size() && room_ > 0; ++i) {
    if (!statuses[i].ok()) {
      if (num_refused_++ == 0) refusal_ = std::string(statuses[i].message());
      continue;
    }
    const size_t count = std::min<uint64_t>(room_, batch_[i].ids.size());
    TAHMIN_RETURN_IF_ERROR(builder_.AddDocument(std::span(batch_[i].ids).first(count)));
    room_ -= count;
  }
  batch_.clear();
  batch_bytes_ = 0;
  return absl::OkStatus();
}

}  // namespace tahmin::cli
