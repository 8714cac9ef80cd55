#include "apps/logits_run.h"

#include <xxhash.h>

#include <algorithm>
#include <span>

#include "apps/terminal.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "gguf/gguf_file.h"
#include "model/model.h"
#include "sampling/logprobs.h"

namespace tahmin::cli {

namespace {

// One row of logits as the options ask for it.
nlohmann::json DescribeRow(std::span<const float> row, const LogitsOptions& options) {
  nlohmann::json position = nlohmann::json::object();
  if (options.top > 0) {
    nlohmann::json ids = nlohmann::json::array(), logprobs = nlohmann::json::array();
    for (const TokenLogprob& entry : TopLogprobs(row, options.top)) {
      ids.push_back(entry.token);
      logprobs.push_back(entry.logprob);
    }
    position["top_ids"] = ids;
    position["top_logprobs"] = logprobs;
  }
  if (options.use_hash)
    position["hash"] = fmt::format("{:016x}", XXH64(row.data(), row.size_bytes(), 0));
  return position;
}

}  // namespace

absl::StatusOr<LogitsRun> RunLogits(const LogitsOptions& options, Engine& engine,
                                    const std::vector<int32_t>& ids, OutputFile* out) {
  const Model& model = engine.model();
  const int32_t vocab_size = model.config().vocab_size;
  const int64_t num_ids = static_cast<int64_t>(ids.size());
  const int32_t rows = static_cast<int32_t>(std::min<int64_t>(options.rows, num_ids));
  KvCache cache(model.MakeKvShape(options.kv_type));
  TAHMIN_ASSIGN_OR_RETURN(const int32_t sequence, cache.AddSequence(num_ids));
  TAHMIN_ASSIGN_OR_RETURN(const auto scratch, model.CreateScratch(rows, rows, engine.pool()));
  const InterruptScope interrupt;
  LogitsRun run;
  for (int64_t begin = 0; begin < num_ids; begin += rows) {
    if (interrupt.flag()->load()) return absl::CancelledError("interrupted");
    const int32_t count = static_cast<int32_t>(std::min<int64_t>(rows, num_ids - begin));
    TAHMIN_RETURN_IF_ERROR(cache.Reserve(sequence, count));
    TokenBatch batch;
    batch.AppendChain(sequence, ids.data() + begin, count, /*all_logits=*/true);
    model.Forward(batch, cache, *scratch, engine.pool());
    ++run.forward_calls;
    std::vector<int32_t> path(count);
    for (int32_t i = 0; i < count; ++i) path[i] = i;
    cache.Commit(sequence, path);
    const std::span<const float> logits = scratch->logits();
    for (int32_t i = 0; i < count; ++i) {
      run.positions.push_back(
          DescribeRow(logits.subspan(size_t(i) * vocab_size, vocab_size), options));
    }
    if (options.top > 0 && run.positions.back()["top_ids"].empty()) {
      return absl::DataLossError(
          fmt::format("{}: the logits are not finite, so there is no most likely id; are the "
                      "weights damaged?",
                      engine.file().path()));
    }
    if (out != nullptr) {
      out->Write({reinterpret_cast<const char*>(logits.data()),
                  size_t(count) * vocab_size * sizeof(float)});
    }
    ShowProgress("running the model", begin + count, num_ids);
  }
  return run;
}

}  // namespace tahmin::cli
