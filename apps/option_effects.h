// Options that were given and change nothing in this run: said on stderr, never dropped in silence.
#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <string>
#include <string_view>

#include "tahmin/engine.h"

namespace tahmin::cli {

bool IsGiven(const CLI::App& command, const std::string& option);

// "note: --lookup-min has no effect: <reason>", for those of `options` that were given.
void NoteNoEffect(const CLI::App& command, std::initializer_list<const char*> options,
                  std::string_view reason);

// The rules of `run` and `chat`.
void NoteOptionsWithoutEffect(const CLI::App& command, const GenerationRequest& request);

// A draft model that no drafter of this run uses is not loaded.
void DropUnusedDraftModel(const CLI::App& command, bool is_used, EngineOptions* options);

}  // namespace tahmin::cli
