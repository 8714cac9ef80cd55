// tahmin datastore: builds the stores of texts that the drafter `rest` retrieves from, and shows
// what is in one.

#include "draft/datastore.h"
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>

#include "apps/command.h"
#include "apps/datastore_build.h"
#include "apps/json_output.h"
#include "apps/terminal.h"
#include "base/status_macros.h"
#include "draft/datastore_format.h"
#include "fmt/format.h"

namespace tahmin::cli {

namespace {

constexpr char kBuildExamples[] = R"(Examples:
  tahmin datastore build -m model.gguf -o docs.store docs/ src/ README.md
  tahmin datastore build -m model.gguf -o chats.store chats.jsonl --max-tokens 50000000

An INPUT is a file or a folder with all that is in it. *.jsonl: one object a line with "text" or "turns" (a list of
texts), each a document; *.ids: token ids, a document a line; any other file of UTF-8 text is one document. Of equal
documents one is taken. In folders, hidden files, links and files that are no text are left out. The ids fit models
with the same tokenizer only. A store takes 8 bytes a token; building takes 19 bytes for each token of a chunk.)";

constexpr char kInfoExamples[] = R"(Examples:
  tahmin datastore info docs.store
  tahmin datastore info docs.store -m model.gguf

With -m it is an error when the model has another tokenizer than the store. --json prints one object: path, version,
tokens, documents, chunks [{entries, suffixes}], file_bytes, vocab_size, fingerprint (16 hexadecimal digits).)";

struct InfoFlags {
  std::string path, model_path, pre_tokenizer;
  bool use_json = false;
};

nlohmann::json StoreToJson(const Datastore& store) {
  nlohmann::json chunks = nlohmann::json::array();
  for (const DatastoreChunk& chunk : store.chunks()) {
    chunks.push_back({{"entries", chunk.entries().size()}, {"suffixes", chunk.num_suffixes()}});
  }
  return {{"path", store.path()},
          {"version", datastore_format::kVersion},
          {"tokens", store.num_tokens()},
          {"documents", store.num_documents()},
          {"chunks", chunks},
          {"file_bytes", store.file_bytes()},
          {"vocab_size", store.vocab_size()},
          {"fingerprint", fmt::format("{:016x}", store.fingerprint())}};
}

absl::Status ShowInfo(const InfoFlags& flags) {
  TAHMIN_ASSIGN_OR_RETURN(const auto store, Datastore::Open(flags.path));
  if (!flags.model_path.empty()) {
    TAHMIN_ASSIGN_OR_RETURN(const auto tokenizer,
                            LoadTokenizer(flags.model_path, flags.pre_tokenizer));
    TAHMIN_RETURN_IF_ERROR(store->CheckTokenizer(tokenizer->Fingerprint()));
  }
  if (flags.use_json) {
    fmt::print("{}\n", DumpJson(StoreToJson(*store)));
    return absl::OkStatus();
  }
  fmt::print("{}: datastore version {}, {}\n", store->path(), datastore_format::kVersion,
             FormatBytes(store->file_bytes()));
  fmt::print("tokens: {} of {} documents, in {} chunks\n", store->num_tokens(),
             store->num_documents(), store->chunks().size());
  fmt::print("tokenizer: {} ids, fingerprint {:016x}{}\n", store->vocab_size(),
             store->fingerprint(), flags.model_path.empty() ? "" : ", the model's");
  return absl::OkStatus();
}

void AddBuild(CLI::App& parent, int* exit_code) {
  auto flags = std::make_shared<DatastoreBuildFlags>();
  CLI::App* command = parent.add_subcommand("build", "Build a store from texts");
  command->add_option("-m,--model", flags->model_path, "GGUF file whose tokenizer is used")
      ->required()
      ->type_name("FILE");
  command->add_option("-o,--output", flags->output_path, "file to write")
      ->required()
      ->type_name("FILE");
  command->add_option("inputs", flags->inputs, "files and folders")->required()->type_name("INPUT");
  command->add_option("--max-tokens", flags->max_tokens, "stop after this many; 0: take all")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  command->add_option("--chunk-tokens", flags->chunk_tokens, "tokens that are sorted at a time")
      ->capture_default_str()
      ->check(CLI::Range(2, INT32_MAX / 3));
  command->add_option("-t,--threads", flags->num_threads, "threads that tokenize; 0: all cores")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  command->add_option("--pre", flags->pre_tokenizer,
                      "pre-tokenizer in place of the one that the model file names");
  command->footer(kBuildExamples);
  command->callback([flags, exit_code] {
    const absl::Status status = BuildDatastore(*flags);
    *exit_code = Report(status);
    if (status.code() == absl::StatusCode::kCancelled) *exit_code = kInterruptedExitCode;
  });
}

void AddInfo(CLI::App& parent, int* exit_code) {
  auto flags = std::make_shared<InfoFlags>();
  CLI::App* command = parent.add_subcommand("info", "Show what is in a store");
  command->add_option("file", flags->path, "the store")->required()->type_name("FILE");
  CLI::Option* model = command->add_option("-m,--model", flags->model_path,
                                           "GGUF file whose tokenizer must be the store's");
  model->type_name("FILE");
  command
      ->add_option("--pre", flags->pre_tokenizer,
                   "pre-tokenizer in place of the one that the model file names")
      ->needs(model);
  command->add_flag("--json", flags->use_json, "print one JSON object");
  command->footer(kInfoExamples);
  command->callback([flags, exit_code] { *exit_code = Report(ShowInfo(*flags)); });
}

}  // namespace

void AddDatastoreCommand(CLI::App& app, int* exit_code) {
  CLI::App* command =
      app.add_subcommand("datastore", "Build and show stores of texts for the drafter `rest`");
  command->require_subcommand(1);
  command->footer(kBuildExamples);
  AddBuild(*command, exit_code);
  AddInfo(*command, exit_code);
}

}  // namespace tahmin::cli
