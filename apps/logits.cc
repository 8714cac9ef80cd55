// tahmin logits: the target's raw logits for given ids, through the same Forward pass and KV cache
// as decoding.

#include <xxhash.h>

#include <cstdio>
#include <memory>
#include <optional>

#include "apps/command.h"
#include "apps/model_options.h"
#include "apps/option_effects.h"
#include "apps/option_values.h"
#include "apps/output_file.h"
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
  const CLI::App* command = nullptr;
  ModelFlags model;
  std::string ids_path, out_path;
  int32_t top = 0, rows = 512;
  bool use_hash = false;
  bool use_json = false;  // the output is JSON in any case
};

// What an error shows of the text at `cursor`: one word, at most 20 bytes, nothing unprintable.
std::string FirstWord(const char* cursor, const char* end) {
  std::string word;
  for (; cursor < end && word.size() < 20; ++cursor) {
    const auto byte = static_cast<unsigned char>(*cursor);
    if (std::isspace(byte)) break;
    word += std::isprint(byte) ? *cursor : '?';
  }
  return word;
}

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
          vocab_size - 1, FirstWord(cursor, end), ids.size()));
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

struct LogitsRun {
  nlohmann::json positions = nlohmann::json::array();
  int64_t forward_calls = 0;
};

// All ids through the model, flags.rows at a time.
absl::StatusOr<LogitsRun> Feed(const LogitsFlags& flags, Engine& engine, KvType kv_type,
                               const std::vector<int32_t>& ids, OutputFile* out) {
  const Model& model = engine.model();
  const int32_t vocab_size = model.config().vocab_size;
  const int64_t num_ids = static_cast<int64_t>(ids.size());
  const int32_t rows = static_cast<int32_t>(std::min<int64_t>(flags.rows, num_ids));
  KvCache cache(model.MakeKvShape(kv_type));
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
          DescribeRow(logits.subspan(size_t(i) * vocab_size, vocab_size), flags));
    }
    if (flags.top > 0 && run.positions.back()["top_ids"].empty()) {
      return absl::DataLossError(
          fmt::format("{}: the logits are not finite, so there is no most likely id; are the "
                      "weights damaged?",
                      flags.model.engine.model_path));
    }
    if (out != nullptr) {
      out->Write({reinterpret_cast<const char*>(logits.data()),
                  size_t(count) * vocab_size * sizeof(float)});
    }
    ShowProgress("running the model", begin + count, num_ids);
  }
  return run;
}

absl::Status CheckRoom(const LogitsFlags& flags, int64_t num_ids) {
  const int64_t context = flags.model.engine.context_tokens;
  if (!IsGiven(*flags.command, "--ctx-size") || context == 0 || num_ids <= context) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: {} ids, and the context holds {} (-c)", flags.ids_path, num_ids, context));
}

absl::Status Logits(const LogitsFlags& flags) {
  TAHMIN_ASSIGN_OR_RETURN(EngineOptions options, flags.model.Resolve());
  if (flags.top == 0 && !flags.use_hash && flags.out_path.empty()) {
    return UsageError("nothing to print: give --top N, --hash or --out FILE");
  }
  NoteNoEffect(*flags.command, {"--prefill-chunk"}, "--rows says how many ids are fed at a time");
  std::optional<OutputFile> out;
  if (!flags.out_path.empty()) {
    TAHMIN_ASSIGN_OR_RETURN(out, OutputFile::Open("--out", flags.out_path));
  }
  // The ids get a cache and a scratch of their own size; the engine's stay minimal.
  options.prefill_chunk = 1;
  options.context_tokens = 2;
  TAHMIN_ASSIGN_OR_RETURN(const auto engine, LoadEngine(options, false));
  const int32_t vocab_size = engine->model().config().vocab_size;
  TAHMIN_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, ReadIds(flags.ids_path, vocab_size));
  TAHMIN_RETURN_IF_ERROR(CheckRoom(flags, static_cast<int64_t>(ids.size())));
  TAHMIN_ASSIGN_OR_RETURN(const LogitsRun run,
                          Feed(flags, *engine, options.kv_type, ids, out ? &*out : nullptr));
  if (out) TAHMIN_RETURN_IF_ERROR(out->Commit());
  const nlohmann::json object = {{"positions", run.positions},
                                 {"forward_calls", run.forward_calls},
                                 {"vocab_size", vocab_size}};
  fmt::print("{}\n", DumpJson(object));
  return absl::OkStatus();
}

}  // namespace

void AddLogitsCommand(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<LogitsFlags>();
  CLI::App* command =
      app.add_subcommand("logits", "Print or write the target's logits for given token ids");
  flags->model.AddTo(*command, /*with_draft=*/false);
  command->add_option("--ids-file", flags->ids_path, "file of token ids separated by white space")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--top", flags->top,
                   "print the n most likely ids and their log-probabilities; 0: none")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
  command->add_option("--rows", flags->rows, "ids fed at a time")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  command->add_flag("--hash", flags->use_hash, "print the XXH64 of each row");
  command->add_option("--out", flags->out_path, "write the rows as raw float32")->type_name("FILE");
  command->add_flag("--json", flags->use_json,
                    "accepted for symmetry: the output is always one JSON object");
  command->footer(kExamples);
  flags->command = command;
  command->callback([flags, exit_code] {
    const absl::Status status = Logits(*flags);
    *exit_code = absl::IsCancelled(status) ? kInterruptedExitCode : Report(status);
  });
}

}  // namespace tahmin::cli
