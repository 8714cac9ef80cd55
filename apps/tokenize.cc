// tahmin tokenize: text to ids, with the vocabulary of a model file.

#include <CLI/CLI.hpp>
#include "apps/command.h"
#include "apps/json_output.h"
#include "apps/model_options.h"
#include "apps/prompt_options.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "gguf/gguf_file.h"
#include "tokenizer/tokenizer.h"

namespace tahmin::cli {

namespace {

constexpr char kTokenizeExamples[] = R"(Examples:
  tahmin tokenize -m model.gguf -p "Hello world"
  tahmin tokenize -m model.gguf -f prompt.txt --json

The bytes are taken as they are: no newline is stripped. Texts of special tokens become those tokens; a begin token is
put in front only where the file's metadata asks for it. --json prints {"ids": [...], "pieces": [...]}; pieces are the
tokens as the file spells them.)";

struct TokenizeFlags {
  std::string model_path, pre_tokenizer;
  PromptFlags prompt;
  bool use_json = false;
};

absl::Status Tokenize(const TokenizeFlags& flags) {
  TAHMIN_ASSIGN_OR_RETURN(const std::string text, flags.prompt.Read());
  TAHMIN_ASSIGN_OR_RETURN(const auto file, GgufFile::Open(flags.model_path));
  std::optional<std::string> pre;
  if (!flags.pre_tokenizer.empty()) {
    TAHMIN_RETURN_IF_ERROR(CheckPreTokenizerFlag(flags.pre_tokenizer));
    pre = flags.pre_tokenizer;
  }
  TAHMIN_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Create(*file, pre));
  TAHMIN_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer->Tokenize(text, {}));
  if (flags.use_json) {
    nlohmann::json pieces = nlohmann::json::array();
    for (int32_t id : ids) pieces.push_back(tokenizer->TokenText(id));
    const nlohmann::json object = {{"ids", ids}, {"pieces", pieces}};
    fmt::print("{}\n", DumpJson(object));
    return absl::OkStatus();
  }
  for (int32_t id : ids) fmt::print("{}\n", id);
  return absl::OkStatus();
}

}  // namespace

void AddTokenizeCommand(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<TokenizeFlags>();
  CLI::App* command = app.add_subcommand("tokenize", "Print the token ids of a text, one a line");
  command->add_option("-m,--model", flags->model_path, "GGUF file")->required()->type_name("FILE");
  command->add_option("--pre", flags->pre_tokenizer,
                      "pre-tokenizer in place of the one that the file names");
  flags->prompt.AddTo(*command);
  command->add_flag("--json", flags->use_json, "print one JSON object");
  command->footer(kTokenizeExamples);
  command->callback([flags, exit_code] { *exit_code = Report(Tokenize(*flags)); });
}

}  // namespace tahmin::cli
