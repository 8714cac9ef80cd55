// Options that were given and change nothing in this run: said on stderr, never dropped in silence.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "tahmin/engine.h"

namespace CLI {
class App;
}

namespace tahmin::cli {

bool IsGiven(const CLI::App& command, const std::string& option);

// "note: --lookup-min has no effect: <reason>", for those of `options` that were given.
void NoteNoEffect(const CLI::App& command, std::initializer_list<const char*> options,
                  std::string_view reason);

// The rules of `run` and `chat`.
void NoteOptionsWithoutEffect(const CLI::App& command, const GenerationRequest& request);

// A bias of an end token beside --ignore-eos. After loading: only then the end tokens are known.
void NoteBiasWithoutEffect(const CLI::App& command, const Engine& engine,
                           const GenerationOptions& options);

// --pre where no text is read.
void NoteUnusedPreTokenizer(const CLI::App& command, const GgufFile& file, std::string_view reason);

// Those that only a draft model reads.
void NoteDraftModelOptions(const CLI::App& command, std::string_view reason);

// A draft model that no drafter of this run uses is not loaded.
void DropUnusedDraftModel(const CLI::App& command, bool is_used, EngineOptions* options);

// Stores that none of the drafters (joined by '+') reads are not opened.
void DropUnusedStores(const CLI::App& command, const std::string& drafters, EngineOptions* options);

}  // namespace tahmin::cli
