#include "apps/datastore_build.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "apps/datastore_input.h"
#include "apps/model_options.h"
#include "apps/terminal.h"
#include "apps/text_intake.h"
#include "base/status_macros.h"
#include "base/stopwatch.h"
#include "draft/datastore_builder.h"
#include "fmt/format.h"
#include "gguf/gguf_file.h"

namespace tahmin::cli {

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& model_path,
                                                         const std::string& pre) {
  if (!pre.empty()) TAHMIN_RETURN_IF_ERROR(CheckPreTokenizerFlag(pre));
  TAHMIN_ASSIGN_OR_RETURN(const auto file, GgufFile::Open(model_path));
  return Tokenizer::Create(*file, pre.empty() ? std::nullopt : std::optional<std::string>(pre));
}

namespace {

// The number of files that are no text.
absl::StatusOr<int64_t> ReadAll(const std::vector<InputFile>& files, int32_t vocab_size,
                                const InterruptScope& interrupt, TextIntake& intake) {
  uint64_t total = 0, done = 0;
  for (const InputFile& file : files) total += file.num_bytes;
  int64_t num_skipped = 0;
  const auto take = [&](InputDocument document) {
    return intake.Take(std::move(document)) && !interrupt.flag()->load();
  };
  for (const InputFile& file : files) {
    TAHMIN_ASSIGN_OR_RETURN(const bool is_text, ReadDocuments(file, vocab_size, take));
    num_skipped += is_text ? 0 : 1;
    if (interrupt.flag()->load()) return absl::CancelledError("interrupted");
    const uint64_t before = std::exchange(done, done + file.num_bytes);
    if (done * 100 / (total + 1) != before * 100 / (total + 1))
      ShowProgress("reading", done, total);
    if (intake.is_full()) break;
  }
  ShowProgress("reading", total, total);
  TAHMIN_RETURN_IF_ERROR(intake.Flush());
  return num_skipped;
}

// Where to write: behind a link, a new file or in place of a regular one, but of none that is read.
absl::StatusOr<std::string> CheckOutput(const DatastoreBuildFlags& flags,
                                        const std::vector<InputFile>& files) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path path = fs::weakly_canonical(flags.output_path, error);
  if (error || !fs::exists(path, error)) return flags.output_path;
  if (!fs::is_regular_file(path, error)) {
    return absl::InvalidArgumentError(
        fmt::format("-o {}: expected a new file or a regular one to replace; it is neither",
                    flags.output_path));
  }
  const auto is_read = [&](const InputFile& file) {
    return fs::equivalent(file.path, path, error);
  };
  if (fs::equivalent(flags.model_path, path, error) ||
      std::any_of(files.begin(), files.end(), is_read)) {
    return absl::InvalidArgumentError(
        fmt::format("-o {}: the datastore would replace a file that it is made from; name another",
                    flags.output_path));
  }
  return path.string();
}

}  // namespace

absl::Status BuildDatastore(const DatastoreBuildFlags& flags) {
  TAHMIN_ASSIGN_OR_RETURN(const auto tokenizer,
                          LoadTokenizer(flags.model_path, flags.pre_tokenizer));
  TAHMIN_ASSIGN_OR_RETURN(const std::vector<InputFile> files, ListInputFiles(flags.inputs));
  TAHMIN_ASSIGN_OR_RETURN(const std::string output_path, CheckOutput(flags, files));
  InterruptScope interrupt;
  double sort_ms = 0;
  Stopwatch sort_watch;
  const auto progress = [&](uint64_t num_sorted, uint64_t num_entries) {
    const bool is_start = num_sorted < num_entries;
    if (is_start) sort_watch = Stopwatch();
    if (!is_start) sort_ms += sort_watch.ElapsedMs();
    ShowProgress(fmt::format("sorting {} tokens", num_entries - num_sorted), is_start ? 0 : 1, 1);
  };
  TAHMIN_ASSIGN_OR_RETURN(
      const auto builder,
      DatastoreBuilder::Create(output_path, {.fingerprint = tokenizer->Fingerprint(),
                                             .vocab_size = tokenizer->vocab_size(),
                                             .chunk_entries = flags.chunk_tokens,
                                             .progress = progress}));
  TextIntake intake(*tokenizer, *builder, flags.num_threads, flags.max_tokens);
  const Stopwatch watch;
  TAHMIN_ASSIGN_OR_RETURN(const int64_t num_skipped,
                          ReadAll(files, tokenizer->vocab_size(), interrupt, intake));
  const double read_ms = watch.ElapsedMs() - sort_ms;
  TAHMIN_RETURN_IF_ERROR(builder->Sort());
  if (interrupt.flag()->load()) return absl::CancelledError("interrupted");
  TAHMIN_RETURN_IF_ERROR(builder->Finish());
  if (intake.num_refused() > 0) {
    fmt::print(stderr, "tahmin: warning: {} documents were left out, the first since {}\n",
               intake.num_refused(), intake.refusal());
  }
  fmt::print(stderr,
             "{}: {} tokens of {} documents in {} chunks, {}; left out: {} files that are no text, "
             "{} copies; tokenized in {:.1f} s ({:.2f} M tokens/s), sorted in {:.1f} s\n",
             flags.output_path, builder->num_tokens(), builder->num_documents(),
             builder->num_chunks(), FormatBytes(builder->file_bytes()), num_skipped,
             intake.num_copies(), read_ms / 1e3, builder->num_tokens() / read_ms / 1e3,
             sort_ms / 1e3);
  return absl::OkStatus();
}

}  // namespace tahmin::cli
