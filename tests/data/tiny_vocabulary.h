// The vocabulary of the tiny models: byte-level BPE in the form that GGUF files of GPT-2 and Qwen
// models have.
#pragma once

#include <cstdint>
#include <string>

#include "gguf/gguf_writer.h"

namespace tahmin {

// A byte as byte-level vocabularies spell it: the printable ones of Latin-1 stand for themselves,
// the others for U+0100 and on, in order.
std::string ByteSpelling(uint8_t byte);

// tokenizer.ggml.* and tokenizer.chat_template. `pre` is the name of the pre-tokenizer.
void AddTinyVocabulary(GgufWriter& writer, const std::string& pre, int32_t vocab_size);

}  // namespace tahmin
