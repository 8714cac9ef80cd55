// tahmin logits: the target's raw logits for given ids, through the same Forward pass and KV cache
// as decoding.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>

#include "apps/command.h"
#include "apps/engine_loading.h"
#include "apps/ids_file.h"
#include "apps/json_output.h"
#include "apps/logits_run.h"
#include "apps/model_options.h"
#include "apps/option_effects.h"
#include "apps/output_file.h"
#include "apps/terminal.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "model/model.h"

namespace tahmin::cli {

namespace {

constexpr char kLogitsExamples[] = R"(Examples:
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
  LogitsOptions logits;
  bool use_json = false;  // the output is JSON in any case
};

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
  if (flags.logits.top == 0 && !flags.logits.use_hash && flags.out_path.empty()) {
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
  TAHMIN_ASSIGN_OR_RETURN(const auto engine, LoadEngine(options, PlanOutput::kSilent));
  const int32_t vocab_size = engine->model().config().vocab_size;
  TAHMIN_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, ReadIds(flags.ids_path, vocab_size));
  NoteUnusedPreTokenizer(*flags.command, engine->file(), "the ids are given");
  LogitsOptions run_options = flags.logits;
  run_options.kv_type = options.kv_type;
  TAHMIN_RETURN_IF_ERROR(CheckRoom(flags, static_cast<int64_t>(ids.size())));
  TAHMIN_ASSIGN_OR_RETURN(const LogitsRun run,
                          RunLogits(run_options, *engine, ids, out ? &*out : nullptr));
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
      ->add_option("--top", flags->logits.top,
                   "print the n most likely ids and their log-probabilities; 0: none")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
  command->add_option("--rows", flags->logits.rows, "ids fed at a time")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  command->add_flag("--hash", flags->logits.use_hash, "print the XXH64 of each row");
  command->add_option("--out", flags->out_path, "write the rows as raw float32")->type_name("FILE");
  command->add_flag("--json", flags->use_json,
                    "accepted for symmetry: the output is always one JSON object");
  command->footer(kLogitsExamples);
  flags->command = command;
  command->callback([flags, exit_code] {
    const absl::Status status = Logits(*flags);
    *exit_code = absl::IsCancelled(status) ? kInterruptedExitCode : Report(status);
  });
}

}  // namespace tahmin::cli
