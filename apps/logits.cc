// tahmin logits: the target's raw logits for given ids, through the same Forward pass and KV cache
// as decoding.

#include <xxhash.h>

#include <cstdio>
#include <fstream>
#include <memory>

#include "apps/command.h"
#include "apps/model_options.h"
#include "apps/terminal.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "model/model.h"
#include "sampling/logprobs.h"
#include "tahmin/engine.h"

namespace tahmin::cli {

namespace {

constexpr char kExamples[] = R"(Examples:
  tahmin logits -m model.gguf --ids-file ids.txt --top 5
  tahmin logits -m model.gguf --ids-file ids.txt --rows 4 --hash
  tahmin logits -m model.gguf --ids-file ids.txt --out logits.f32

Ids are separated by white space; all start from an empty context. --rows feeds that many ids at a time: the
result is the same for every value. Prints {"positions": [{"top_ids", "top_logprobs", "hash"}], "forward_calls",
"vocab_size"}; hash is the XXH64 of the row's float32 bytes, in hexadecimal. --out writes raw little-endian float32
[positions, vocab_size].)";

struct LogitsFlags {
  ModelFlags model;
  std::string ids_path, out_path;
  int32_t top = 0, rows = 512;
  bool use_hash = false;
  bool use_json = false;  // the output is JSON in any case
};

absl::StatusOr<std::vector<int32_t>> ReadIds(const std::string& path, int32_t vocab_size) {
  TAHMIN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::vector<int32_t> ids;
  const char* cursor = text.c_str();
  const char* const end = cursor + text.size();
  while (cursor < end) {
    if (std::isspace(static_cast<unsigned char>(*cursor))) {
      ++cursor;
      continue;
    }
    char* after = nullptr;
    const long long id = std::strtoll(cursor, &after, 10);
    const bool ends_well =
        after != cursor && (after == end || std::isspace(static_cast<unsigned char>(*after)));
    if (!ends_well || id < 0 || id >= vocab_size) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: expected token ids from 0 to {} separated by white space, found '{}' as id {}", path,
          vocab_size - 1, std::string(cursor, std::min<size_t>(20, end - cursor)), ids.size()));
    }
    ids.push_back(static_cast<int32_t>(id));
    cursor = after;
  }
  if (ids.empty())
    return absl::InvalidArgumentError(
        fmt::format("{}: expected at least one id, found none", path));
  return ids;
}

// One row of logits as the options ask for it.
nlohmann::json DescribeRow(std::span<const float> row, const LogitsFlags& flags) {
  nlohmann::json position = nlohmann::json::object();
  if (flags.top > 0) {
    nlohmann::json ids = nlohmann::json::array(), logprobs = nlohmann::json::array();
    for (const TokenLogprob& entry : TopLogprobs(row, flags.top)) {
      ids.push_back(entry.token);
      logprobs.push_back(entry.logprob);
    }
    position["top_ids"] = ids;
    position["top_logprobs"] = logprobs;
  }
  if (flags.use_hash)
    position["hash"] = fmt::format("{:016x}", XXH64(row.data(), row.size_bytes(), 0));
  return position;
}

absl::Status Logits(const LogitsFlags& flags) {
  TAHMIN_ASSIGN_OR_RETURN(EngineOptions options, flags.model.Resolve());
  if (flags.top == 0 && !flags.use_hash && flags.out_path.empty()) {
    return UsageError("nothing to print: give --top N, --hash or --out FILE");
  }
  options.prefill_chunk = flags.rows;
  TAHMIN_ASSIGN_OR_RETURN(const auto engine, LoadEngine(options, false));
  const Model& model = engine->model();
  const int32_t vocab_size = model.config().vocab_size;
  TAHMIN_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, ReadIds(flags.ids_path, vocab_size));
  const int64_t num_ids = static_cast<int64_t>(ids.size());

  KvCache cache(model.MakeKvShape(options.kv_type));
  TAHMIN_ASSIGN_OR_RETURN(const int32_t sequence, cache.AddSequence(num_ids));
  const int32_t rows = static_cast<int32_t>(std::min<int64_t>(flags.rows, num_ids));
  TAHMIN_ASSIGN_OR_RETURN(const auto scratch, model.CreateScratch(rows, rows, engine->pool()));
  std::ofstream out;
  const std::string partial_path = flags.out_path + ".part";
  if (!flags.out_path.empty()) {
    out.open(partial_path, std::ios::binary);
    if (!out) return absl::NotFoundError(fmt::format("cannot write {}", partial_path));
  }

  nlohmann::json positions = nlohmann::json::array();
  int64_t forward_calls = 0;
  for (int64_t begin = 0; begin < num_ids; begin += rows) {
    const int32_t count = static_cast<int32_t>(std::min<int64_t>(rows, num_ids - begin));
    TAHMIN_RETURN_IF_ERROR(cache.Reserve(sequence, count));
    TokenBatch batch;
    batch.AppendChain(sequence, ids.data() + begin, count, /*all_logits=*/true);
    model.Forward(batch, cache, *scratch, engine->pool());
    ++forward_calls;
    std::vector<int32_t> path(count);
    for (int32_t i = 0; i < count; ++i) path[i] = i;
    cache.Commit(sequence, path);
    const std::span<const float> logits = scratch->logits();
    for (int32_t i = 0; i < count; ++i) {
      positions.push_back(DescribeRow(logits.subspan(size_t(i) * vocab_size, vocab_size), flags));
    }
    if (out.is_open()) out.write(reinterpret_cast<const char*>(logits.data()), logits.size_bytes());
    ShowProgress("running the model", begin + count, num_ids);
  }
  if (out.is_open()) {
    out.close();
    if (!out || std::rename(partial_path.c_str(), flags.out_path.c_str()) != 0) {
      std::remove(partial_path.c_str());
      return absl::DataLossError(fmt::format("cannot write {}", flags.out_path));
    }
  }
  const nlohmann::json object = {
      {"positions", positions}, {"forward_calls", forward_calls}, {"vocab_size", vocab_size}};
  fmt::print("{}\n", object.dump());
  return absl::OkStatus();
}

}  // namespace

void AddLogitsCommand(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<LogitsFlags>();
  CLI::App* command =
      app.add_subcommand("logits", "Print or write the target's logits for given token ids");
  flags->model.AddTo(*command, /*with_draft=*/false);
  command->add_option("--ids-file", flags->ids_path, "file of token ids separated by white space")
      ->required();
  command
      ->add_option("--top", flags->top,
                   "print the n most likely ids and their log-probabilities; 0: none")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
  command->add_option("--rows", flags->rows, "ids fed at a time")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  command->add_flag("--hash", flags->use_hash, "print the XXH64 of each row");
  command->add_option("--out", flags->out_path, "write the rows as raw float32");
  command->add_flag("--json", flags->use_json,
                    "accepted for symmetry: the output is always one JSON object");
  command->footer(kExamples);
  command->callback([flags, exit_code] { *exit_code = Report(Logits(*flags)); });
}

}  // namespace tahmin::cli
