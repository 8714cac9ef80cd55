// Any bytes as a GGUF file: parsed, every entry read through every accessor, a few rows of every
// tensor dequantised; then loaded as a model, tokenizer included, and run for two tokens.
//   fuzz_gguf CORPUS tests/fuzz/corpus/fuzz_gguf
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/thread_pool.h"
#include "gguf/dequantize.h"
#include "gguf/gguf_file.h"
#include "kv/kv_cache.h"
#include "model/model.h"
#include "step/token_batch.h"
#include "tokenizer/tokenizer.h"

namespace {

void TouchEntry(const tahmin::GgufFile& file, const tahmin::GgufEntry& entry) {
  TAHMIN_CHECK(file.FindEntry(entry.key) == &entry);
  int num_types = 0;
  num_types += file.GetBool(entry.key).ok() ? 1 : 0;
  num_types += file.GetString(entry.key).ok() ? 1 : 0;
  num_types += file.GetInt(entry.key).ok() || file.GetFloat(entry.key).ok() ? 1 : 0;
  const auto strings = file.GetStringArray(entry.key);
  const auto integers = file.GetIntArray(entry.key);
  const auto floats = file.GetFloatArray(entry.key);
  const bool is_array = strings.ok() || integers.ok() || floats.ok();
  TAHMIN_CHECK(num_types + (is_array ? 1 : 0) <= 1);
  if (strings.ok()) TAHMIN_CHECK(strings->size() == entry.num_elements);
  if (integers.ok()) TAHMIN_CHECK(integers->size() == entry.num_elements);
  TAHMIN_CHECK(!tahmin::FormatGgufValue(entry).empty());
}

void TouchTensor(const tahmin::GgufTensor& tensor) {
  const tahmin::TensorTypeTraits& traits =
      *tahmin::FindTensorType(static_cast<uint32_t>(tensor.type));
  const size_t columns = static_cast<size_t>(tensor.columns());
  const size_t row_bytes =
      columns / static_cast<size_t>(traits.block_elements) * traits.block_bytes;
  TAHMIN_CHECK(tensor.bytes.size() == row_bytes * static_cast<size_t>(tensor.rows()));
  std::vector<float> row(columns);
  for (size_t i = 0; i < std::min<size_t>(3, static_cast<size_t>(tensor.rows())); ++i) {
    const bool ok =
        tahmin::DequantizeRow(tensor.type, tensor.bytes.subspan(i * row_bytes, row_bytes), row)
            .ok();
    TAHMIN_CHECK(ok == traits.is_weight);
  }
}

// One pass of two rows: the first and the last token of the vocabulary.
void RunTwoTokens(const tahmin::Model& model, tahmin::ThreadPool& pool) {
  tahmin::KvCache cache(model.MakeKvShape(tahmin::KvType::kF16));
  const auto sequence = cache.AddSequence(2);
  const auto scratch = model.CreateScratch(2, 2, pool);
  if (!sequence.ok() || !scratch.ok()) return;
  TAHMIN_CHECK(cache.Reserve(*sequence, 2).ok());
  const int32_t tokens[] = {0, model.config().vocab_size - 1};
  tahmin::TokenBatch batch;
  batch.AppendChain(*sequence, tokens, 2, true);
  model.Forward(batch, cache, **scratch, pool);
  TAHMIN_CHECK((*scratch)->logits().size() == 2 * static_cast<size_t>(model.config().vocab_size));
}

void Load(std::shared_ptr<const tahmin::GgufFile> file) {
  static tahmin::ThreadPool pool(1);
  const auto tokenizer = tahmin::Tokenizer::Create(*file);
  TAHMIN_CHECK(tokenizer.ok() || !tokenizer.status().message().empty());
  const auto planned_bytes = tahmin::Model::PlannedWeightBytes(*file);
  const auto model = tahmin::Model::Load(std::move(file), {}, pool);
  TAHMIN_CHECK(model.ok() || !model.status().message().empty());
  if (!model.ok()) return;
  TAHMIN_CHECK(planned_bytes.ok());
  RunTwoTokens(**model, pool);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t num_bytes) {
  auto file = tahmin::GgufFile::Parse({bytes, num_bytes}, "fuzz");
  if (!file.ok()) {
    TAHMIN_CHECK(!file.status().message().empty());
    return 0;
  }
  for (const tahmin::GgufEntry& entry : (*file)->entries()) TouchEntry(**file, entry);
  for (const tahmin::GgufTensor& tensor : (*file)->tensors()) TouchTensor(tensor);
  Load(*std::move(file));
  return 0;
}
