// The texts that `tahmin datastore build` reads: files and folders, as a list of documents.
//
//   *.jsonl   one JSON object a line, with "text" (a text) or "turns" (a list of texts): a document
//             a line, turns with an empty line between
//   *.ids     token ids separated by white space: a document a line
//   else      the whole file is one document
//
// A folder stands for all regular files in it, in the order of their names; hidden files and
// folders and links are left out, and so is a file that is no text: one with a zero byte or with
// bytes that are not UTF-8. Such a file given by its own name is an error.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tahmin::cli {

struct InputFile {
  std::string path;
  uint64_t num_bytes = 0;
  bool is_from_folder = false;
};

struct InputDocument {
  std::string text = {};
  std::vector<int32_t> ids = {};  // of a document that is tokens already; its text is empty
};

// NOT_FOUND and the like name the input.
absl::StatusOr<std::vector<InputFile>> ListInputFiles(const std::vector<std::string>& inputs);

// Hands the file's documents to `take`, in order, until that returns false. Gives false for a file
// that is no text and was found in a folder. Errors name the file and the line.
absl::StatusOr<bool> ReadDocuments(const InputFile& file, int32_t vocab_size,
                                   const std::function<bool(InputDocument)>& take);

}  // namespace tahmin::cli
